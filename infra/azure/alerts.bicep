// What pages somebody. Log alerts look for the names that shared/decision_log.py writes.
param location string
param tags object
param name string
param workspaceId string
param serviceBusName string
param entityName string
param appName string
param email string

var lines = 'AppTraces | extend line = parse_json(Message)'

// Severity 0 is critical, 1 an error, 2 a warning, 3 informational.
var logAlerts = [
  {
    name: 'double-charge-detected'
    severity: 0
    about: 'Stripe has a second payment for a customer and period. Refund it, then find out why.'
    query: '${lines} | where tostring(line.event) == "double_charge_detected"'
    window: 'PT5M'
  }
  {
    name: 'overdue'
    severity: 1
    about: 'A record is in doubt or unfinished, or a message is kept, for longer than a day.'
    query: '${lines} | where tostring(line.code) == "overdue"'
    window: 'P1D'
  }
  {
    name: 'conflict'
    severity: 1
    about: 'An event or a payment differs from its record. Nothing was charged a second time.'
    query: '${lines} | where tostring(line.event) == "conflict"'
    window: 'PT15M'
  }
  {
    name: 'blocked-by-cap'
    severity: 1
    about: 'A charge did not fit into the cap of its run. Raise the cap, or find out who used it up.'
    query: '${lines} | where tostring(line.event) == "blocked_by_cap"'
    window: 'PT15M'
  }
  {
    name: 'spend-near-cap'
    severity: 3
    about: 'A run has held and charged 90 % of its cap.'
    query: '${lines} | where tostring(line.event) == "spend_near_cap"'
    window: 'PT15M'
  }
  {
    name: 'stripe-auth-failed'
    severity: 1
    about: 'Stripe refuses the API key. Nothing is charged until it is replaced.'
    query: '${lines} | where tostring(line.event) == "stripe_auth_failed"'
    window: 'PT15M'
  }
  {
    name: 'breaker-open'
    severity: 2
    about: 'Stripe answers too badly to go on calling it. Messages wait.'
    query: '${lines} | where tostring(line.event) == "breaker_open"'
    window: 'PT15M'
  }
  {
    name: 'lock-lost'
    severity: 2
    about: 'Locks ran out while messages were being handled. Nobody is charged twice, but time is lost.'
    query: '${lines} | where tostring(line.event) in ("lock_lost", "settlement_failed")'
    window: 'PT15M'
  }
  {
    name: 'message-waits'
    severity: 2
    about: 'A message has been delivered again and again for two hours.'
    query: '${lines} | where isnotempty(tostring(line.message_id)) | summarize first = min(TimeGenerated), arg_max(TimeGenerated, line) by id = tostring(line.message_id) | where tostring(line.event) in ("in_doubt", "transient", "in_progress_elsewhere") | where TimeGenerated - first > 2h and TimeGenerated > ago(30m)'
    window: 'P1D'
  }
  {
    name: 'error-line'
    severity: 1
    about: 'Something that an operator must mend, such as settings, the schema or a defect.'
    query: '${lines} | where tostring(line.severity) in ("ERROR", "CRITICAL") and isempty(tostring(line.event))'
    window: 'PT15M'
  }
  {
    name: 'function-failed'
    severity: 1
    about: 'A function failed: for mint_vault_key, no run was opened.'
    query: 'AppRequests | where Success == false'
    window: 'PT15M'
  }
  {
    name: 'no-reconcile'
    severity: 1
    about: 'The reconcile timer has not come to an end for an hour: the app does not run.'
    query: 'AppRequests | where AppRoleName =~ "${appName}" and Name == "reconcile" and Success == true'
    window: 'PT1H'
  }
]

var metricAlerts = [
  {
    name: 'dead-letters'
    severity: 1
    about: 'The dead-letter queue is not empty. It has no retention: somebody must look.'
    metric: 'DeadletteredMessages'
    aggregation: 'Maximum'
    window: 'PT5M'
    frequency: 'PT5M'
  }
  {
    name: 'queue-does-not-drain'
    severity: 2
    // Service Bus has no metric for the age of its oldest message; this is what comes nearest.
    about: 'The queue has not been empty for six hours.'
    metric: 'ActiveMessages'
    aggregation: 'Minimum'
    window: 'PT6H'
    frequency: 'PT30M'
  }
]

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: name
  location: 'global'
  tags: tags
  properties: {
    groupShortName: take(name, 12)
    enabled: true
    emailReceivers: empty(email) ? [] : [
      {
        name: 'operator'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
  }
}

resource logRules 'Microsoft.Insights/scheduledQueryRules@2022-06-15' = [for alert in logAlerts: {
  name: '${name}-${alert.name}'
  location: location
  tags: tags
  properties: {
    description: alert.about
    severity: alert.severity
    enabled: true
    scopes: [
      workspaceId
    ]
    evaluationFrequency: alert.window == 'PT5M' ? 'PT5M' : 'PT15M'
    windowSize: alert.window
    criteria: {
      allOf: [
        {
          query: alert.query
          timeAggregation: 'Count'
          operator: alert.name == 'no-reconcile' ? 'LessThan' : 'GreaterThan'
          threshold: alert.name == 'no-reconcile' ? 1 : 0
          failingPeriods: {
            numberOfEvaluationPeriods: 1
            minFailingPeriodsToAlert: 1
          }
        }
      ]
    }
    autoMitigate: true
    // The tables come into being with the first line.
    skipQueryValidation: true
    actions: {
      actionGroups: [
        people.id
      ]
    }
  }
}]

resource serviceBus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: serviceBusName
}

resource metricRules 'Microsoft.Insights/metricAlerts@2018-03-01' = [for alert in metricAlerts: {
  name: '${name}-${alert.name}'
  location: 'global'
  tags: tags
  properties: {
    description: alert.about
    severity: alert.severity
    enabled: true
    scopes: [
      serviceBus.id
    ]
    evaluationFrequency: alert.frequency
    windowSize: alert.window
    autoMitigate: true
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          name: alert.name
          criterionType: 'StaticThresholdCriterion'
          metricNamespace: 'Microsoft.ServiceBus/namespaces'
          metricName: alert.metric
          timeAggregation: alert.aggregation
          operator: 'GreaterThan'
          threshold: 0
          dimensions: [
            {
              name: 'EntityName'
              operator: 'Include'
              values: [
                entityName
              ]
            }
          ]
        }
      ]
    }
    actions: [
      {
        actionGroupId: people.id
      }
    ]
  }
}]
