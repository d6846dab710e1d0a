# What somebody must be told. Log lines are the program's own, docs/how-it-works.md lists them;
# docs/runbook.md says what to do about each of these.

locals {
  ours = join(" OR ", [
    "resource.labels.service_name=~\"^${var.name}-\"",
    "resource.labels.worker_pool_name=~\"^${var.name}-\"",
    "resource.labels.job_name=~\"^${var.name}-\"",
  ])

  # Each is told once an hour, however many lines there are.
  log_alerts = {
    double_charge_detected = {
      severity = "CRITICAL"
      filter   = "jsonPayload.event=\"double_charge_detected\""
      told     = "A second payment exists for a customer and period. Refund one: chargeonce audit names both."
    }
    overdue = {
      severity = "ERROR"
      filter   = "jsonPayload.code=\"overdue\""
      told     = "A record or a kept event has not come to an end for a day (a bank debit: 14 days). chargeonce show tells its story."
    }
    spend_near_cap = {
      severity = "WARNING"
      filter   = "jsonPayload.event=\"spend_near_cap\""
      told     = "A run has used 90 % of its cap. At the cap events go to the dead letters: chargeonce run raise-cap, if that is right."
    }
    blocked_by_cap = {
      severity = "ERROR"
      filter   = "jsonPayload.event=\"blocked_by_cap\""
      told     = "A charge was stopped by its run's cap."
    }
    lock_lost = {
      severity = "WARNING"
      filter   = "jsonPayload.event=\"lock_lost\""
      told     = "A message was settled after its lease had run out. Nobody was charged twice; if it goes on, deadlines are too short."
    }
    conflict = {
      severity = "ERROR"
      filter   = "jsonPayload.event=\"conflict\""
      told     = "An event contradicts the record of its customer and period, or its key was used by another request. People must decide."
    }
    stripe_auth_failed = {
      severity = "CRITICAL"
      filter   = "jsonPayload.event=\"stripe_auth_failed\""
      told     = "Stripe refuses the key: nothing is charged until it is replaced."
    }
    # Decisions have alerts of their own, and 503 is how a pushed event is left until later.
    function_failed = {
      severity = "ERROR"
      filter   = "severity>=ERROR AND NOT jsonPayload.event:* AND NOT httpRequest.status=503"
      told     = "Something failed or is set wrongly; the log line names it."
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
      filter = "(${local.ours}) AND ${each.value.filter}"
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

resource "google_monitoring_alert_policy" "dead_letters" {
  display_name          = "${var.name}: dead_letters"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = var.notification_channels

  conditions {
    display_name = "there are dead letters"
    condition_threshold {
      filter          = "resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=\"${google_pubsub_subscription.dead_letters.name}\" AND metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\""
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"
      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "chargeonce dlq list says which and why, chargeonce dlq resubmit sends them again."
  }
}

resource "google_monitoring_alert_policy" "oldest_message" {
  display_name          = "${var.name}: oldest_message"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = var.notification_channels

  conditions {
    display_name = "an event waits for more than ${var.oldest_message_hours} h"
    condition_threshold {
      filter          = "resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=\"${google_pubsub_subscription.events.name}\" AND metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\""
      comparison      = "COMPARISON_GT"
      threshold_value = var.oldest_message_hours * 3600
      duration        = "0s"
      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "After 31 days Pub/Sub forgets it. It may wait for its run (chargeonce run open), for Stripe or for the database: the log says which."
  }
}

# A timer that cannot even be called writes no line of ours.
resource "google_monitoring_alert_policy" "timer_failed" {
  display_name          = "${var.name}: timer_failed"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = var.notification_channels

  conditions {
    display_name = "Cloud Scheduler got no good answer"
    condition_matched_log {
      filter = "resource.type=\"cloud_scheduler_job\" AND resource.labels.job_id=~\"^${var.name}-\" AND severity>=ERROR"
    }
  }

  alert_strategy {
    auto_close = "86400s"
    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content = "Nothing unfinished is driven on while reconcile fails, and no run is opened while mint does."
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
