// One function app on Flex Consumption, with an identity of its own that may do what it must.
param location string
param tags object
param name string
param storageName string
param monitoringName string
param vaultName string

@description('The secrets that this app may read, and no others.')
param secretNames array

@description('The namespace it receives from; empty for an app that receives nothing.')
param serviceBusName string = ''

@description('Its subnet; empty without a network.')
param subnetId string

param maximumInstanceCount int
param instanceMemoryMB int

@description('Where alone HTTP calls may come from, beside the subnet; anywhere when both are empty.')
param allowedIpAddress string = ''

@description('A subnet that HTTP calls may come from as well.')
param allowedSubnetId string = ''

param settings object

var ways = [
  'ftp'
  'scm'
]
var deploymentContainer = 'deployments'
var roles = {
  storageBlobDataOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  monitoringMetricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb'
  keyVaultSecretsUser: '4633458b-17de-408a-b874-0445c86b69e6'
  serviceBusDataReceiver: '4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0'
}

var allowedAddress = {
  name: 'operator'
  action: 'Allow'
  priority: 100
  ipAddress: '${allowedIpAddress}/32'
}
var allowedSubnet = {
  name: 'billing'
  action: 'Allow'
  priority: 110
  vnetSubnetResourceId: allowedSubnetId
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: name
  location: location
  tags: tags
}

// ---- What the host needs: its leases, its keys, the package it runs ----

var hostSettings = {
  AzureWebJobsStorage__blobServiceUri: storage.properties.primaryEndpoints.blob
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: identity.properties.clientId
  APPLICATIONINSIGHTS_CONNECTION_STRING: monitoring.properties.ConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'Authorization=AAD;ClientId=${identity.properties.clientId}'
}
var receiverSettings = {
  ServiceBus__credential: 'managedidentity'
  ServiceBus__clientId: identity.properties.clientId
}

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  // checkov:skip=CKV_AZURE_59: identities alone get in; in production only from the app's subnet
  // checkov:skip=CKV_AZURE_35: as above; a desk has no network of its own
  // checkov:skip=CKV_AZURE_43: the check takes the parameter's name for the account's; main.bicep makes the name
  // checkov:skip=CKV_AZURE_206: zone-redundant; another region would not help a host that runs in this one
  name: storageName
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: 'Standard_ZRS'
  }
  properties: {
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    networkAcls: {
      defaultAction: empty(subnetId) ? 'Allow' : 'Deny'
      bypass: 'AzureServices'
      virtualNetworkRules: empty(subnetId) ? [] : [
        {
          id: subnetId
        }
      ]
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: storage
  name: 'default'
}

resource container 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = {
  parent: blobs
  name: deploymentContainer
  properties: {
    publicAccess: 'None'
  }
}

// ---- What its identity may do ----

resource monitoring 'Microsoft.Insights/components@2020-02-02' existing = {
  name: monitoringName
}

resource serviceBus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: empty(serviceBusName) ? 'there-is-none' : serviceBusName
}

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' existing = {
  name: vaultName
}

resource secrets 'Microsoft.KeyVault/vaults/secrets@2023-07-01' existing = [for secretName in secretNames: {
  parent: vault
  name: secretName
}]

resource mayKeepItsFiles 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: storage
  name: guid(storage.id, identity.id, roles.storageBlobDataOwner)
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.storageBlobDataOwner)
  }
}

resource mayLog 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: monitoring
  name: guid(monitoring.id, identity.id, roles.monitoringMetricsPublisher)
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.monitoringMetricsPublisher)
  }
}

resource mayReadItsSecrets 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (secretName, index) in secretNames: {
  scope: secrets[index]
  name: guid(vault.id, secretName, identity.id, roles.keyVaultSecretsUser)
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.keyVaultSecretsUser)
  }
}]

resource mayReceive 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(serviceBusName)) {
  scope: serviceBus
  name: guid(serviceBus.id, identity.id, roles.serviceBusDataReceiver)
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.serviceBusDataReceiver)
  }
}

// ---- The app ----

resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  // checkov:skip=CKV_AZURE_225: what survives a zone is the record; another instance goes on with it
  name: name
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
  }
}

resource app 'Microsoft.Web/sites@2024-04-01' = {
  // checkov:skip=CKV_AZURE_17: callers bring a vault key or the admin token; the billing app has no HTTP function
  // checkov:skip=CKV_AZURE_16: it has an identity, of the kind that exists before the app does, so that its roles do too
  // checkov:skip=CKV_AZURE_71: as above
  // checkov:skip=CKV_AZURE_212: Flex Consumption scales by itself
  // checkov:skip=CKV_AZURE_213: Flex Consumption has no health check; the alert no-reconcile says that the app does not run
  // checkov:skip=CKV_AZURE_222: the billing app has no HTTP function, the proxy is there to be called, and its admin API takes the operator and the billing app alone
  name: name
  location: location
  tags: tags
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    keyVaultReferenceIdentity: identity.id
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    siteConfig: {
      minTlsVersion: '1.2'
      http20Enabled: true
      ftpsState: 'Disabled'
      ipSecurityRestrictionsDefaultAction: empty(allowedIpAddress) && empty(allowedSubnetId) ? 'Allow' : 'Deny'
      ipSecurityRestrictions: concat(empty(allowedIpAddress) ? [] : [allowedAddress], empty(allowedSubnetId) ? [] : [allowedSubnet])
    }
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${storage.properties.primaryEndpoints.blob}${deploymentContainer}'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identity.id
          }
        }
      }
      scaleAndConcurrency: {
        maximumInstanceCount: maximumInstanceCount
        instanceMemoryMB: instanceMemoryMB
      }
      runtime: {
        name: 'python'
        version: '3.13'
      }
    }
  }
  dependsOn: [
    container
    mayKeepItsFiles
    mayLog
    mayReadItsSecrets
    mayReceive
  ]
}

resource appSettings 'Microsoft.Web/sites/config@2024-04-01' = {
  // These checks are about the page `web` of the configuration; this is the page of app settings.
  // checkov:skip=CKV_AZURE_13: callers bring a vault key or the admin token
  // checkov:skip=CKV_AZURE_63: what is logged goes to Application Insights
  // checkov:skip=CKV_AZURE_65: as above; an error page must tell nobody anything
  // checkov:skip=CKV_AZURE_66: as above
  // checkov:skip=CKV_AZURE_80: no .NET runs here
  // checkov:skip=CKV_AZURE_88: nothing is kept in files
  // checkov:skip=CKV_AZURE_222: see the app
  parent: app
  name: 'appsettings'
  properties: union(hostSettings, empty(serviceBusName) ? {} : receiverSettings, settings)
}

resource noBasicPublishing 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-04-01' = [for way in ways: {
  parent: app
  name: way
  properties: {
    allow: false
  }
}]

output name string = app.name
