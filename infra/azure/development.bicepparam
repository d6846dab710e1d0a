// For trying it out in Stripe's test mode. Secrets come from the environment; see docs/deploy-azure.md.
using 'main.bicep'

param production = false
param alertEmail = readEnvironmentVariable('ALERT_EMAIL', '')

// Test mode allows 25 requests a second: 40 instances x 0.5 = 20.
param maximumInstanceCount = 40
param stripeMaxRequestsPerSecond = '0.5'

param createDatabase = true
param databasePassword = readEnvironmentVariable('DATABASE_PASSWORD', '')
param operatorIpAddress = readEnvironmentVariable('OPERATOR_IP_ADDRESS', '')
param stripeApiKey = readEnvironmentVariable('STRIPE_API_KEY', '')
param vaultAdminToken = readEnvironmentVariable('VAULT_ADMIN_TOKEN', '')
param vaultProxyApiKey = readEnvironmentVariable('VAULT_PROXY_API_KEY', '')
param vaultEncryptionKey = readEnvironmentVariable('VAULT_ENCRYPTION_KEY', '')
