#!/bin/sh
# Second: what runs. For push the function bill, for pull the worker, and for both the two timers.
#
#   PROJECT=my-project sh infra/gcp/gcloud/deploy.sh
#   PROJECT=my-project DELIVERY=pull IMAGE=...@sha256:... sh infra/gcp/gcloud/deploy.sh
. "$(dirname "$0")/common.sh"

# Arguments: name, entry point, account, requests at once, instances, further settings.
deploy_function() {
    gcloud functions deploy "$NAME-$1" --gen2 --runtime=python313 --trigger-http \
        --no-allow-unauthenticated --ingress-settings=internal-only \
        --source="$root" --entry-point="$2" --service-account="$3" \
        --concurrency="$4" --cpu=1 --memory=512Mi --max-instances="$5" \
        --timeout="${function_timeout_seconds}s" \
        --set-env-vars="$settings,THREADS=$4,CLOUD_RUN_TIMEOUT_SECONDS=$function_timeout_seconds,$6" \
        --set-secrets="$secrets" --region="$REGION" --project="$PROJECT"
}

let_invoke() {
    gcloud run services add-iam-policy-binding "$NAME-$1" --member="serviceAccount:$2" \
        --role=roles/run.invoker --region="$REGION" --project="$PROJECT"
}

# Arguments: name, schedule.
schedule() {
    address=$(gcloud run services describe "$NAME-$1" --format='value(status.url)' \
        --region="$REGION" --project="$PROJECT")
    gcloud scheduler jobs create http "$NAME-$1" --schedule="$2" --time-zone=Etc/UTC \
        --uri="$address" --http-method=post \
        --oidc-service-account-email="$scheduler" --oidc-token-audience="$address" \
        --attempt-deadline="${attempt_deadline_seconds}s" \
        --max-retry-attempts=3 --min-backoff=60s --max-backoff=600s \
        --location="$REGION" --project="$PROJECT"
}

if [ "$DELIVERY" = push ]; then
    deploy_function bill bill "$biller" "$concurrency" "$max_instances" "PUBSUB_PUSH_SERVICE_ACCOUNT=$pusher"
    let_invoke bill "$pusher"
else
    gcloud beta run worker-pools deploy "$NAME-pull" \
        --image="${IMAGE:?Set IMAGE to what build.sh has made, by its digest}" \
        --command=python --args=-m,gcp_function.pull --service-account="$biller" \
        --scaling="$worker_instances" --cpu=1 --memory=512Mi \
        --set-env-vars="$settings,PUBSUB_SUBSCRIPTION=$NAME-pull,WORKER_CONCURRENCY=$concurrency" \
        --set-secrets="$secrets" --region="$REGION" --project="$PROJECT"
fi

deploy_function reconcile reconcile "$timers" 1 1 "SCHEDULER_SERVICE_ACCOUNT=$scheduler"
deploy_function mint mint_vault_key "$timers" 1 1 "SCHEDULER_SERVICE_ACCOUNT=$scheduler"
let_invoke reconcile "$scheduler"
let_invoke mint "$scheduler"
schedule reconcile '*/5 * * * *'
schedule mint '0 3 1 * *'
