// Where events come from: a queue, or a topic with one subscription.
param location string
param tags object
param name string
param workspaceId string
param lockDuration string
param maxDeliveryCount int
param messageTimeToLive string
param requiresDuplicateDetection bool
param useTopic bool

var entity = 'usage'
var subscriptionName = 'billing'

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: 'Standard'
    tier: 'Standard'
  }
  properties: {
    // No connection strings: identities with a role alone get in.
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
  }
}

resource queue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = if (!useTopic) {
  parent: namespace
  name: entity
  properties: {
    lockDuration: lockDuration
    maxDeliveryCount: maxDeliveryCount
    // Else what expires is deleted.
    deadLetteringOnMessageExpiration: true
    defaultMessageTimeToLive: messageTimeToLive
    requiresDuplicateDetection: requiresDuplicateDetection
    requiresSession: false
  }
}

resource topic 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = if (useTopic) {
  parent: namespace
  name: entity
  properties: {
    defaultMessageTimeToLive: messageTimeToLive
    requiresDuplicateDetection: requiresDuplicateDetection
  }
}

resource topicSubscription 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' = if (useTopic) {
  parent: topic
  name: subscriptionName
  properties: {
    lockDuration: lockDuration
    maxDeliveryCount: maxDeliveryCount
    deadLetteringOnMessageExpiration: true
    // A filter that fails must not lose an event.
    deadLetteringOnFilterEvaluationExceptions: true
    defaultMessageTimeToLive: messageTimeToLive
    requiresSession: false
  }
}

resource logs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: namespace
  name: 'operations'
  properties: {
    workspaceId: workspaceId
    logs: [
      {
        categoryGroup: 'audit'
        enabled: true
      }
    ]
  }
}

output name string = namespace.name
output entityName string = entity
output subscriptionName string = subscriptionName
