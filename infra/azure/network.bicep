// Production's network: the database is inside, and so are the apps, each in a subnet of its own
// because a Flex Consumption app shares none.
param location string
param tags object
param name string

var apps = [
  'billing'
  'vault-calls'
  'vault-admin'
]

resource network 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: [
        '10.20.0.0/16'
      ]
    }
  }
}

resource databaseSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' = {
  parent: network
  name: 'database'
  properties: {
    addressPrefix: '10.20.0.0/27'
    delegations: [
      {
        name: 'postgresql'
        properties: {
          serviceName: 'Microsoft.DBforPostgreSQL/flexibleServers'
        }
      }
    ]
  }
}

@batchSize(1)
resource appSubnets 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' = [for (app, index) in apps: {
  parent: network
  name: app
  properties: {
    addressPrefix: '10.20.1.${index * 64}/26'
    delegations: [
      {
        name: 'functions'
        properties: {
          serviceName: 'Microsoft.App/environments'
        }
      }
    ]
    serviceEndpoints: [
      {
        service: 'Microsoft.KeyVault'
      }
      {
        service: 'Microsoft.Storage'
      }
      {
        service: 'Microsoft.Web'
      }
    ]
  }
  dependsOn: [
    databaseSubnet
  ]
}]

resource zone 'Microsoft.Network/privateDnsZones@2020-06-01' = {
  name: '${name}.private.postgres.database.azure.com'
  location: 'global'
  tags: tags
}

resource zoneLink 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = {
  parent: zone
  name: 'network'
  location: 'global'
  properties: {
    registrationEnabled: false
    virtualNetwork: {
      id: network.id
    }
  }
}

output databaseSubnetId string = databaseSubnet.id
output databaseZoneId string = zone.id
output appSubnetIds array = [
  appSubnets[0].id
  appSubnets[1].id
  appSubnets[2].id
]
