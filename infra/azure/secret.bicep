// One secret of the vault.
param vaultName string
param name string

@secure()
param value string

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' existing = {
  name: vaultName
}

resource secret 'Microsoft.KeyVault/vaults/secrets@2023-07-01' = {
  // checkov:skip=CKV_AZURE_41: a secret that expires would stop billing; it is changed by hand, see docs/deploy-azure.md
  parent: vault
  name: name
  properties: {
    contentType: 'text/plain'
    value: value
  }
}
