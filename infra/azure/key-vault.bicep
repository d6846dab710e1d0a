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

resource database 'Microsoft.KeyVault/vaults/secrets@2023-07-01' = if (!empty(databaseUrl)) {
  // checkov:skip=CKV_AZURE_41: a secret that expires would stop billing; it is changed by hand, see docs/deploy-azure.md
  // checkov:skip=CKV_AZURE_114: it has a content type; the check does not look behind a condition
  parent: vault
  name: 'database-url'
  properties: {
    contentType: 'text/plain'
    value: databaseUrl
  }
}

resource stripe 'Microsoft.KeyVault/vaults/secrets@2023-07-01' = if (!empty(stripeApiKey)) {
  // checkov:skip=CKV_AZURE_41: as above
  // checkov:skip=CKV_AZURE_114: as above
  parent: vault
  name: 'stripe-api-key'
  properties: {
    contentType: 'text/plain'
    value: stripeApiKey
  }
}

resource admin 'Microsoft.KeyVault/vaults/secrets@2023-07-01' = if (!empty(vaultAdminToken)) {
  // checkov:skip=CKV_AZURE_41: as above
  // checkov:skip=CKV_AZURE_114: as above
  parent: vault
  name: 'vault-admin-token'
  properties: {
    contentType: 'text/plain'
    value: vaultAdminToken
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
