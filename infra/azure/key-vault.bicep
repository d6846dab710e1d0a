// The secrets. An empty parameter leaves a secret as it is, so that a later deployment needs none.
param location string
param tags object
param name string
param workspaceId string
param production bool
param appSubnetIds array
param operatorIpAddress string

@secure()
param databaseUrl string

@secure()
param stripeApiKey string

@secure()
param vaultAdminToken string

@secure()
param vaultProxyApiKey string

@secure()
param vaultEncryptionKey string

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' = {
  // checkov:skip=CKV_AZURE_109: in production only the apps' subnets and the operator's address get in; a desk has no network of its own
  // checkov:skip=CKV_AZURE_189: as above; identities with a role alone read secrets
  name: name
  location: location
  tags: tags
  properties: {
    tenantId: subscription().tenantId
    sku: {
      family: 'A'
      name: 'standard'
    }
    enableRbacAuthorization: true
    enableSoftDelete: true
    softDeleteRetentionInDays: 90
    enablePurgeProtection: true
    networkAcls: {
      defaultAction: production ? 'Deny' : 'Allow'
      bypass: 'AzureServices'
      virtualNetworkRules: [for id in appSubnetIds: {
        id: id
      }]
      ipRules: empty(operatorIpAddress) ? [] : [
        {
          value: operatorIpAddress
        }
      ]
    }
  }
}

module database 'secret.bicep' = if (!empty(databaseUrl)) {
  name: 'secret-database-url'
  params: {
    vaultName: vault.name
    name: 'database-url'
    value: databaseUrl
  }
}

module stripe 'secret.bicep' = if (!empty(stripeApiKey)) {
  name: 'secret-stripe-api-key'
  params: {
    vaultName: vault.name
    name: 'stripe-api-key'
    value: stripeApiKey
  }
}

module adminToken 'secret.bicep' = if (!empty(vaultAdminToken)) {
  name: 'secret-vault-admin-token'
  params: {
    vaultName: vault.name
    name: 'vault-admin-token'
    value: vaultAdminToken
  }
}

module proxyKey 'secret.bicep' = if (!empty(vaultProxyApiKey)) {
  name: 'secret-vault-proxy-api-key'
  params: {
    vaultName: vault.name
    name: 'vault-proxy-api-key'
    value: vaultProxyApiKey
  }
}

module encryptionKey 'secret.bicep' = if (!empty(vaultEncryptionKey)) {
  name: 'secret-vault-encryption-key'
  params: {
    vaultName: vault.name
    name: 'vault-encryption-key'
    value: vaultEncryptionKey
  }
}

resource logs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: vault
  name: 'access'
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

output name string = vault.name
output uri string = vault.properties.vaultUri
