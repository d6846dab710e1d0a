# Read by the scripts that do without Terraform. The numbers are those of variables.tf; a test holds
# them together.
. "$(dirname "$0")/../common.sh"

DELIVERY="${DELIVERY:-push}"
case "$DELIVERY" in
push | pull) ;;
*)
    say "DELIVERY is push or pull. With both, every event would be delivered twice."
    exit 2
    ;;
esac

number=$(gcloud projects describe "$PROJECT" --format='value(projectNumber)')
pubsub="service-$number@gcp-sa-pubsub.iam.gserviceaccount.com"
biller="$NAME-biller@$PROJECT.iam.gserviceaccount.com"
timers="$NAME-timers@$PROJECT.iam.gserviceaccount.com"
pusher="$NAME-pusher@$PROJECT.iam.gserviceaccount.com"
scheduler="$NAME-scheduler@$PROJECT.iam.gserviceaccount.com"

ack_deadline_seconds=600
function_timeout_seconds=300
attempt_deadline_seconds=320
minimum_backoff_seconds=10
maximum_backoff_seconds=600
max_delivery_attempts=100
concurrency=8
max_instances=5
worker_instances=2

settings="GOOGLE_CLOUD_PROJECT=$PROJECT,PUBSUB_TOPIC=$NAME-events"
settings="$settings,PUBSUB_DEAD_LETTER_TOPIC=$NAME-dead-letters"
settings="$settings,PUBSUB_DEAD_LETTER_SUBSCRIPTION=$NAME-dead-letters"
settings="$settings,BILLING_MAX_DELIVERIES=$max_delivery_attempts"
settings="$settings,CHARGE_BUDGET_SECONDS=120,CLAIM_LEASE_SECONDS=180"
settings="$settings,STRIPE_CONNECT_TIMEOUT_SECONDS=5,STRIPE_READ_TIMEOUT_SECONDS=30"
settings="$settings,STRIPE_MAX_REQUESTS_PER_SECOND=10"
secrets="DATABASE_URL=$NAME-database-url:1,STRIPE_API_KEY=$NAME-stripe-api-key:1"
