// Chargeonce on Azure: the queue, the function app that bills, what it needs, and what pages
// somebody. Deployed into a resource group by provision.sh (`az deployment group create`) or `azd up`.
// Why each value is what it is: docs/deploy-azure.md.
targetScope = 'resourceGroup'

@description('Where everything is; a region that has Flex Consumption.')
param location string = resourceGroup().location

@description('Begins the names of all resources: lower-case letters and digits.')
@minLength(3)
@maxLength(11)
param prefix string = 'chargeonce'

@description('The azd environment; empty without azd.')
param environmentName string = ''

@description('Production: zone-redundant database with a synchronous standby, private network, longer retention.')
param production bool = false

@description('Who is told when something is wrong; without an address alerts fire and tell nobody.')
param alertEmail string = ''

// ---- Events ----

@description('How long a delivery holds a message: Service Bus allows no more. Longer than the lease.')
param lockDuration string = 'PT5M'

@description('Deliveries before Service Bus gives up; the app gets the same number. A message that must wait is left until its lock ends, so 100 of them outlast a night without a database (8 hours 20 minutes). With a database it is handed over to reconcile one delivery earlier.')
@minValue(10)
@maxValue(2000)
param maxDeliveryCount int = 100

@description('An event that nobody took for so long goes to the dead letters.')
param messageTimeToLive string = 'P14D'

@description('Silently drops a dead letter that is sent again with its own message id, so it is off: the record is what charges once.')
param requiresDuplicateDetection bool = false

@description('Events come through a subscription of a topic in place of a queue.')
param useTopic bool = false

// ---- How it charges ----

@description('The version of Stripe charges: payment_intent, or charge for accounts that bill legacy sources.')
@allowed([
  'payment_intent'
  'charge'
])
param stripeFlow string = 'payment_intent'

@description('What one delivery may spend at Stripe.')
param chargeBudgetSeconds int = 120

@description('Longer than the budget plus one attempt, shorter than the lock.')
param claimLeaseSeconds int = 180

@description('With the read timeout: one attempt.')
param stripeConnectTimeoutSeconds int = 5

@description('With the connect timeout: one attempt.')
param stripeReadTimeoutSeconds int = 30

@description('Requests per second of one instance; times the instances it stays below what Stripe allows. 0 is off.')
param stripeMaxRequestsPerSecond string = '0.5'

@description('Functions that one instance runs at once: maxConcurrentCalls of host.json, and the size of its database pool.')
param workerThreads int = 8

@description('Instances at most. Times the threads it stays below the connections of the database.')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 40

@allowed([
  512
  2048
  4096
])
param instanceMemoryMB int = 2048

@description('Whatever else shared/settings.py reads, by name; it overrides what is set here.')
param billingSettings object = {}

// ---- The database ----

@description('Make a PostgreSQL server; false for one of your own, whose databaseUrl is given.')
param createDatabase bool = true

@description('The address of a database of your own.')
@secure()
param databaseUrl string = ''

@description('Password of the server that is made here: letters and digits, 16 or more.')
@secure()
param databasePassword string = ''

@description('An address that may reach the database from outside, to migrate it; without one nobody can.')
param operatorIpAddress string = ''

// ---- Secrets: needed the first time; later an empty one leaves what is in the vault ----

@description('A restricted key, rk_test_... or rk_live_....')
@secure()
param stripeApiKey string = ''

@description('Opens the admin API of the spend-cap proxy that deployVaultProxy makes.')
@secure()
param vaultAdminToken string = ''

@description('Opens the proxy that the billing app calls: its admin token, or the hosted service\'s key.')
@secure()
param vaultProxyApiKey string = ''

@description('What the billing app encrypts its vault keys with.')
@secure()
param vaultEncryptionKey string = ''

// ---- The spend-cap proxy ----

@description('proxy: the billing app calls Stripe through a proxy, with vault keys, and cannot read Stripe\'s own key.')
@allowed([
  'ledger'
  'proxy'
])
param vaultProvider string = 'ledger'

@description('Where that proxy is; empty for the one that deployVaultProxy makes.')
param vaultProxyUrl string = ''

@description('Where its keys are minted, if that is another address.')
param vaultAdminUrl string = ''

@description('Deploys the spend-cap proxy as two apps of its own: one for calls, one for the admin API.')
param deployVaultProxy bool = false

var token = uniqueString(resourceGroup().id)
var tags = empty(environmentName) ? {} : { 'azd-env-name': environmentName }
var databaseSecret = 'database-url'
var stripeSecret = 'stripe-api-key'
var adminSecret = 'vault-admin-token'
var proxyKeySecret = 'vault-proxy-api-key'
var encryptionSecret = 'vault-encryption-key'

// Settings that an app reads from the vault, by an identity that may read those alone.
var databaseReference = '@Microsoft.KeyVault(SecretUri=${vault.outputs.uri}secrets/${databaseSecret}/)'
var stripeReference = '@Microsoft.KeyVault(SecretUri=${vault.outputs.uri}secrets/${stripeSecret}/)'
var adminReference = '@Microsoft.KeyVault(SecretUri=${vault.outputs.uri}secrets/${adminSecret}/)'
var proxyKeyReference = '@Microsoft.KeyVault(SecretUri=${vault.outputs.uri}secrets/${proxyKeySecret}/)'
var encryptionReference = '@Microsoft.KeyVault(SecretUri=${vault.outputs.uri}secrets/${encryptionSecret}/)'

var receivingSettings = {
  ServiceBus__fullyQualifiedNamespace: '${serviceBus.outputs.name}.servicebus.windows.net'
}
var topicSettings = {
  BILLING_TOPIC: serviceBus.outputs.entityName
  BILLING_SUBSCRIPTION: serviceBus.outputs.subscriptionName
}
var queueSettings = {
  BILLING_QUEUE: serviceBus.outputs.entityName
}
// With a proxy the billing app holds no key of Stripe.
var throughProxy = vaultProvider == 'proxy'
var proxyCallsName = '${prefix}-vault-${token}'
var proxyAdminName = '${prefix}-vaultadmin-${token}'
// The billing app mints from its subnet. Without a network it comes from any address of Azure's, so
// that the admin token alone keeps others out.
var mintsFromAnywhere = throughProxy && !production
var directSettings = {
  STRIPE_API_KEY: stripeReference
}
var throughProxySettings = {
  VAULT_PROVIDER: 'proxy'
  VAULT_PROXY_URL: empty(vaultProxyUrl) ? 'https://${proxyCallsName}.azurewebsites.net' : vaultProxyUrl
  VAULT_ADMIN_URL: empty(vaultProxyUrl) ? 'https://${proxyAdminName}.azurewebsites.net' : vaultAdminUrl
  VAULT_PROXY_API_KEY: proxyKeyReference
  VAULT_ENCRYPTION_KEY: encryptionReference
}
var directSecrets = [
  databaseSecret
  stripeSecret
]
var throughProxySecrets = [
  databaseSecret
  proxyKeySecret
  encryptionSecret
]
var chargingSettings = {
  DATABASE_URL: databaseReference
  STRIPE_FLOW: stripeFlow
  STRIPE_CONNECT_TIMEOUT_SECONDS: string(stripeConnectTimeoutSeconds)
  STRIPE_READ_TIMEOUT_SECONDS: string(stripeReadTimeoutSeconds)
  STRIPE_MAX_REQUESTS_PER_SECOND: stripeMaxRequestsPerSecond
  CHARGE_BUDGET_SECONDS: string(chargeBudgetSeconds)
  CLAIM_LEASE_SECONDS: string(claimLeaseSeconds)
  BILLING_MAX_DELIVERIES: string(maxDeliveryCount)
  PYTHON_THREADPOOL_THREAD_COUNT: string(workerThreads)
}
var proxySettings = {
  VAULT_PROXY_SERVES: 'calls'
  DATABASE_URL: databaseReference
  STRIPE_API_KEY: stripeReference
  STRIPE_CONNECT_TIMEOUT_SECONDS: string(stripeConnectTimeoutSeconds)
  STRIPE_READ_TIMEOUT_SECONDS: string(stripeReadTimeoutSeconds)
  PYTHON_THREADPOOL_THREAD_COUNT: string(workerThreads)
}
var proxyAdminSettings = {
  VAULT_PROXY_SERVES: 'admin'
  DATABASE_URL: databaseReference
  VAULT_ADMIN_TOKEN: adminReference
  PYTHON_THREADPOOL_THREAD_COUNT: string(workerThreads)
}
var ownDatabaseUrl = empty(databasePassword) ? '' : 'postgresql://chargeonce:${uriComponent(databasePassword)}@${database.outputs.host}:5432/chargeonce?sslmode=require'
var billingTags = {
  'azd-service-name': 'billing'
}

module network 'network.bicep' = if (production) {
  name: 'network'
  params: {
    location: location
    tags: tags
    name: '${prefix}-${token}'
  }
}

module monitoring 'monitoring.bicep' = {
  name: 'monitoring'
  params: {
    location: location
    tags: tags
    name: '${prefix}-${token}'
    retentionInDays: production ? 365 : 30
  }
}

module serviceBus 'service-bus.bicep' = {
  name: 'service-bus'
  params: {
    location: location
    tags: tags
    name: '${prefix}-${token}'
    workspaceId: monitoring.outputs.workspaceId
    lockDuration: lockDuration
    maxDeliveryCount: maxDeliveryCount
    messageTimeToLive: messageTimeToLive
    requiresDuplicateDetection: requiresDuplicateDetection
    useTopic: useTopic
  }
}

module database 'database.bicep' = if (createDatabase) {
  name: 'database'
  params: {
    location: location
    tags: tags
    name: '${prefix}-${token}'
    production: production
    administratorPassword: databasePassword
    subnetId: production ? network.outputs.databaseSubnetId : ''
    privateDnsZoneId: production ? network.outputs.databaseZoneId : ''
    operatorIpAddress: operatorIpAddress
  }
}

module vault 'key-vault.bicep' = {
  name: 'key-vault'
  params: {
    location: location
    tags: tags
    name: take('${prefix}-${token}', 24)
    workspaceId: monitoring.outputs.workspaceId
    production: production
    appSubnetIds: production ? network.outputs.appSubnetIds : []
    operatorIpAddress: operatorIpAddress
    databaseUrl: createDatabase ? ownDatabaseUrl : databaseUrl
    stripeApiKey: stripeApiKey
    vaultAdminToken: vaultAdminToken
    vaultProxyApiKey: vaultProxyApiKey
    vaultEncryptionKey: vaultEncryptionKey
  }
}

module billing 'function-app.bicep' = {
  name: 'billing'
  params: {
    location: location
    tags: union(tags, billingTags)
    name: '${prefix}-billing-${token}'
    storageName: take('${prefix}bill${token}', 24)
    monitoringName: monitoring.outputs.componentName
    vaultName: vault.outputs.name
    secretNames: throughProxy ? throughProxySecrets : directSecrets
    serviceBusName: serviceBus.outputs.name
    subnetId: production ? network.outputs.appSubnetIds[0] : ''
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    settings: union(chargingSettings, throughProxy ? throughProxySettings : directSettings, receivingSettings, useTopic ? topicSettings : queueSettings, billingSettings)
  }
}

// Two apps, because whoever may call Stripe through the proxy must not mint keys for it.
module vaultProxyCalls 'function-app.bicep' = if (deployVaultProxy) {
  name: 'vault-proxy-calls'
  params: {
    location: location
    tags: tags
    name: proxyCallsName
    storageName: take('${prefix}vlt${token}', 24)
    monitoringName: monitoring.outputs.componentName
    vaultName: vault.outputs.name
    secretNames: [
      databaseSecret
      stripeSecret
    ]
    subnetId: production ? network.outputs.appSubnetIds[1] : ''
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    settings: proxySettings
  }
}

module vaultProxyAdmin 'function-app.bicep' = if (deployVaultProxy) {
  name: 'vault-proxy-admin'
  params: {
    location: location
    tags: tags
    name: proxyAdminName
    storageName: take('${prefix}adm${token}', 24)
    monitoringName: monitoring.outputs.componentName
    vaultName: vault.outputs.name
    secretNames: [
      databaseSecret
      adminSecret
    ]
    subnetId: production ? network.outputs.appSubnetIds[2] : ''
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    allowedIpAddress: mintsFromAnywhere ? '' : operatorIpAddress
    allowedSubnetId: production && throughProxy ? network.outputs.appSubnetIds[0] : ''
    settings: proxyAdminSettings
  }
}

module alerts 'alerts.bicep' = {
  name: 'alerts'
  params: {
    location: location
    tags: tags
    name: prefix
    workspaceId: monitoring.outputs.workspaceId
    serviceBusName: serviceBus.outputs.name
    entityName: serviceBus.outputs.entityName
    appName: billing.outputs.name
    email: alertEmail
  }
}

output AZURE_FUNCTION_APP string = billing.outputs.name
output AZURE_VAULT_PROXY_APP string = deployVaultProxy ? vaultProxyCalls.outputs.name : ''
output AZURE_VAULT_ADMIN_APP string = deployVaultProxy ? vaultProxyAdmin.outputs.name : ''
output AZURE_KEY_VAULT string = vault.outputs.name
output SERVICE_BUS_NAMESPACE string = '${serviceBus.outputs.name}.servicebus.windows.net'
output BILLING_ENTITY string = serviceBus.outputs.entityName
output BILLING_ENTITY_KIND string = useTopic ? 'topic' : 'queue'
