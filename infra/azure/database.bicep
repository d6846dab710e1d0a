// PostgreSQL. In production a standby in another zone has every commit before it is confirmed: losing
// commits is the one thing that could bring a second charge back.
param location string
param tags object
param name string
param production bool

@secure()
param administratorPassword string

param subnetId string
param privateDnsZoneId string
param operatorIpAddress string

// Backups stay in this region: one from another would be of an older moment, and cost twice.
resource server 'Microsoft.DBforPostgreSQL/flexibleServers@2024-08-01' = {
  name: name
  location: location
  tags: tags
  sku: production ? {
    name: 'Standard_D2ds_v5'
    tier: 'GeneralPurpose'
  } : {
    name: 'Standard_B2s'
    tier: 'Burstable'
  }
  properties: {
    version: '16'
    administratorLogin: 'chargeonce'
    // Without one the server keeps what it has.
    administratorLoginPassword: empty(administratorPassword) ? null : administratorPassword
    authConfig: {
      passwordAuth: 'Enabled'
      activeDirectoryAuth: 'Disabled'
    }
    storage: {
      storageSizeGB: 64
      autoGrow: 'Enabled'
    }
    backup: {
      backupRetentionDays: production ? 35 : 7
      geoRedundantBackup: 'Disabled'
    }
    highAvailability: {
      mode: production ? 'ZoneRedundant' : 'Disabled'
    }
    network: production ? {
      delegatedSubnetResourceId: subnetId
      privateDnsZoneArmResourceId: privateDnsZoneId
    } : {
      publicNetworkAccess: 'Enabled'
    }
  }
}

resource database 'Microsoft.DBforPostgreSQL/flexibleServers/databases@2024-08-01' = {
  parent: server
  name: 'chargeonce'
  properties: {
    charset: 'UTF8'
    collation: 'en_US.utf8'
  }
}

resource synchronousCommit 'Microsoft.DBforPostgreSQL/flexibleServers/configurations@2024-08-01' = {
  parent: server
  name: 'synchronous_commit'
  properties: {
    value: 'on'
    source: 'user-override'
  }
  dependsOn: [
    database
  ]
}

// It knows who was charged: deleting it takes two steps.
resource lock 'Microsoft.Authorization/locks@2020-05-01' = if (production) {
  scope: server
  name: 'records-of-charges'
  properties: {
    level: 'CanNotDelete'
    notes: 'Without these records customers could be charged twice.'
  }
}

// A desk: Azure's own services, which the function app is one of, and the operator.
resource azureServices 'Microsoft.DBforPostgreSQL/flexibleServers/firewallRules@2024-08-01' = if (!production) {
  parent: server
  name: 'azure-services'
  properties: {
    startIpAddress: '0.0.0.0'
    endIpAddress: '0.0.0.0'
  }
  dependsOn: [
    synchronousCommit
  ]
}

resource operator 'Microsoft.DBforPostgreSQL/flexibleServers/firewallRules@2024-08-01' = if (!production && !empty(operatorIpAddress)) {
  parent: server
  name: 'operator'
  properties: {
    startIpAddress: operatorIpAddress
    endIpAddress: operatorIpAddress
  }
  dependsOn: [
    azureServices
  ]
}

output host string = server.properties.fullyQualifiedDomainName
