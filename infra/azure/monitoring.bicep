// Where the log lines go that alerts are built on.
param location string
param tags object
param name string
param retentionInDays int

resource workspace 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: retentionInDays
  }
}

resource component 'Microsoft.Insights/components@2020-02-02' = {
  name: name
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    // Only identities with a role write here, not whoever has the connection string.
    DisableLocalAuth: true
    // An alert must not depend on a sample of the log lines.
    SamplingPercentage: 100
  }
}

output workspaceId string = workspace.id
output componentName string = component.name
