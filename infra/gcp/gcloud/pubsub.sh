#!/bin/sh
# Third: the topics, the subscription with its dead letters, and the grants without which Pub/Sub
# moves none. For push the function has to be there: the subscription is told its address.
#
#   PROJECT=my-project sh infra/gcp/gcloud/pubsub.sh
. "$(dirname "$0")/common.sh"

events="$NAME-events"
dead_letters="$NAME-dead-letters"
subscription="$NAME-$DELIVERY"

gcloud pubsub topics create "$events" --message-retention-duration=31d --project="$PROJECT"
gcloud pubsub topics create "$dead_letters" --message-retention-duration=31d --project="$PROJECT"

# Without a subscription the topic keeps nothing.
gcloud pubsub subscriptions create "$dead_letters" --topic="$dead_letters" \
    --ack-deadline=60 --message-retention-duration=31d --expiration-period=never \
    --min-retry-delay="${minimum_backoff_seconds}s" --max-retry-delay="${maximum_backoff_seconds}s" \
    --project="$PROJECT"

gcloud pubsub topics add-iam-policy-binding "$dead_letters" --member="serviceAccount:$pubsub" \
    --role=roles/pubsub.publisher --project="$PROJECT"
gcloud pubsub topics add-iam-policy-binding "$dead_letters" --member="serviceAccount:$biller" \
    --role=roles/pubsub.publisher --project="$PROJECT"

set -- "$subscription" --topic="$events" \
    --ack-deadline="$ack_deadline_seconds" --message-retention-duration=31d --expiration-period=never \
    --min-retry-delay="${minimum_backoff_seconds}s" --max-retry-delay="${maximum_backoff_seconds}s" \
    --dead-letter-topic="$dead_letters" --max-delivery-attempts="$max_delivery_attempts" \
    --project="$PROJECT"
if [ "$DELIVERY" = push ]; then
    address=$(gcloud run services describe "$NAME-bill" --format='value(status.url)' \
        --region="$REGION" --project="$PROJECT")
    set -- "$@" --push-endpoint="$address" \
        --push-auth-service-account="$pusher" --push-auth-token-audience="$address"
fi
gcloud pubsub subscriptions create "$@"

gcloud pubsub subscriptions add-iam-policy-binding "$subscription" --member="serviceAccount:$pubsub" \
    --role=roles/pubsub.subscriber --project="$PROJECT"
if [ "$DELIVERY" = pull ]; then
    gcloud pubsub subscriptions add-iam-policy-binding "$subscription" --member="serviceAccount:$biller" \
        --role=roles/pubsub.subscriber --project="$PROJECT"
fi
