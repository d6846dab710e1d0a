# What somebody must be told. Log lines are the program's own, docs/how-it-works.md lists them. The names
# are those of the alerts on Azure.

locals {
  ours = join(" OR ", [
    for label in ["service_name", "worker_pool_name", "job_name", "job_id"] :
    "resource.labels.${label}=~\"^${var.name}-\""
  ])
  scheduler = "resource.type=\"cloud_scheduler_job\""

  # Each is told once an hour, however many lines there are.
  log_alerts = {
    double-charge-detected = {
      severity = "CRITICAL"
      filter   = "jsonPayload.event=\"double_charge_detected\""
      told     = "Stripe has a second payment for a customer and period. Refund it, then find out why: chargeonce audit names both."
    }
    overdue = {
      severity = "ERROR"
      filter   = "jsonPayload.code=\"overdue\""
      told     = "A record is in doubt or unfinished, or a message is kept, for longer than a day (a bank debit: 14 days). chargeonce show tells its story."
    }
    conflict = {
      severity = "ERROR"
      filter   = "jsonPayload.event=\"conflict\""
      told     = "An event or a payment differs from its record. Nothing was charged a second time; people must decide."
    }
    blocked-by-cap = {
      severity = "ERROR"
      filter   = "jsonPayload.event=\"blocked_by_cap\""
      told     = "A charge did not fit into the cap of its run. Raise the cap (chargeonce run raise-cap), or find out who used it up."
    }
    spend-near-cap = {
      severity = "WARNING"
      filter   = "jsonPayload.event=\"spend_near_cap\""
      told     = "A run has held and charged 90 % of its cap."
    }
    stripe-auth-failed = {
      severity = "CRITICAL"
      filter   = "jsonPayload.event=\"stripe_auth_failed\""
      told     = "Stripe refuses the API key. Nothing is charged until it is replaced."
    }
    breaker-open = {
      severity = "WARNING"
      filter   = "jsonPayload.event=\"breaker_open\""
      told     = "Stripe answers too badly to go on calling it. Messages wait."
    }
    lock-lost = {
      severity = "WARNING"
      filter   = "jsonPayload.event=(\"lock_lost\" OR \"settlement_failed\")"
      told     = "Leases ran out while messages were being handled. Nobody is charged twice, but time is lost."
    }
    error-line = {
      severity = "ERROR"
      filter   = "severity>=ERROR AND NOT jsonPayload.event:* AND NOT httpRequest.status:* AND NOT ${local.scheduler}"
      told     = "Something that an operator must mend, such as settings, the schema or a defect."
    }
    # 503 is how a pushed event is left until later; from a timer, Cloud Scheduler takes it for a failure.
    function-failed = {
      severity = "ERROR"
      filter   = "(httpRequest.status>=500 AND NOT httpRequest.status=503) OR (${local.scheduler} AND severity>=ERROR)"
      told     = "A function failed or was cut off: for mint, no run was opened."
    }
  }

  subscription_alerts = {
    dead-letters = {
      subscription = google_pubsub_subscription.dead_letters.name
      metric       = "num_undelivered_messages"
      above        = 0
      told         = "The dead letters are not empty, and Pub/Sub forgets them after 31 days. chargeonce dlq list says which and why, chargeonce dlq resubmit sends them again."
    }
    message-waits = {
      subscription = google_pubsub_subscription.events.name
      metric       = "oldest_unacked_message_age"
      above        = var.oldest_message_hours * 3600
      told         = "An event waits for more than ${var.oldest_message_hours} h; after 31 days Pub/Sub forgets it. It may wait for its run (chargeonce run open), for Stripe or for the database: the log says which."
    }
  }
}

resource "google_monitoring_alert_policy" "log" {
  for_each = local.log_alerts

  display_name          = "${var.name}: ${each.key}"
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = var.notification_channels

  conditions {
    display_name = each.key
    condition_matched_log {
      filter = "(${local.ours}) AND (${each.value.filter})"
    }
  }

  alert_strategy {
    auto_close = "86400s"
    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content = each.value.told
  }
}

resource "google_monitoring_alert_policy" "subscription" {
  for_each = local.subscription_alerts

  display_name          = "${var.name}: ${each.key}"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = var.notification_channels

  conditions {
    display_name = each.key
    condition_threshold {
      filter = join(" AND ", [
        "resource.type=\"pubsub_subscription\"",
        "resource.labels.subscription_id=\"${each.value.subscription}\"",
        "metric.type=\"pubsub.googleapis.com/subscription/${each.value.metric}\"",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.above
      duration        = "0s"
      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = each.value.told
  }
}

# A timer that is not called at all writes no line.
resource "google_monitoring_alert_policy" "no_reconcile" {
  display_name          = "${var.name}: no-reconcile"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = var.notification_channels

  conditions {
    display_name = "no-reconcile"
    condition_absent {
      filter = join(" AND ", [
        "resource.type=\"cloud_run_revision\"",
        "resource.labels.service_name=\"${google_cloudfunctions2_function.this["reconcile"].name}\"",
        "metric.type=\"run.googleapis.com/request_count\"",
        "metric.labels.response_code_class=\"2xx\"",
      ])
      duration = "3600s"
      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content = "The reconcile timer has not come to an end for an hour: nothing that is unfinished is driven on."
  }
}

# Every decision is counted, by its name: also duplicates that were prevented, which no queue metric shows.
resource "google_logging_metric" "decisions" {
  name        = "${var.name}-decisions"
  description = "Decisions by event"
  filter      = "(${local.ours}) AND jsonPayload.event:*"

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
    labels {
      key        = "event"
      value_type = "STRING"
    }
  }

  label_extractors = {
    event = "EXTRACT(jsonPayload.event)"
  }
}
