# Each plan and each apply looks at who may really call the functions, whoever changed it since.

data "google_cloud_run_v2_service_iam_policy" "function" {
  for_each = google_cloudfunctions2_function.this

  name     = each.value.name
  location = var.region

  depends_on = [google_cloud_run_v2_service_iam_member.caller]
}

check "no_function_is_open_to_everybody" {
  assert {
    condition = alltrue([
      for policy in data.google_cloud_run_v2_service_iam_policy.function :
      !strcontains(policy.policy_data, "allUsers") && !strcontains(policy.policy_data, "allAuthenticatedUsers")
    ])
    error_message = "A function is open to everybody: whoever finds its address can bill. Remove allUsers and allAuthenticatedUsers from its invokers."
  }
}
