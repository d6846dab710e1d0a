// For charging. Secrets come from the environment; see docs/deploy-azure.md.
using 'main.bicep'

// A zone-redundant database with a synchronous standby, inside a network; longer retention.
param production = true
param alertEmail = readEnvironmentVariable('ALERT_EMAIL')

// Live mode allows 100 requests a second: 40 instances x 2 = 80.
param maximumInstanceCount = 40
param stripeMaxRequestsPerSecond = '2'

// Set createDatabase to false, and DATABASE_URL in the environment, for a database of your own. It
// needs a synchronous standby too.
param createDatabase = true
param databaseUrl = readEnvironmentVariable('DATABASE_URL', '')
param databasePassword = readEnvironmentVariable('DATABASE_PASSWORD', '')
param operatorIpAddress = readEnvironmentVariable('OPERATOR_IP_ADDRESS', '')
param stripeApiKey = readEnvironmentVariable('STRIPE_API_KEY', '')
param vaultAdminToken = readEnvironmentVariable('VAULT_ADMIN_TOKEN', '')
param vaultProxyApiKey = readEnvironmentVariable('VAULT_PROXY_API_KEY', '')
param vaultEncryptionKey = readEnvironmentVariable('VAULT_ENCRYPTION_KEY', '')
