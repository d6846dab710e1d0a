"""The functions that Google Cloud looks for at the root."""

import functions_framework

from gcp_function import push, scheduled, vault
from shared.decision_log import log_to_stdout
from shared.settings import is_vault_proxy

log_to_stdout()

bill = functions_framework.http(push.bill)
mint_vault_key = functions_framework.http(scheduled.mint_vault_key)
reconcile = functions_framework.http((vault if is_vault_proxy() else scheduled).reconcile)
vault_proxy = functions_framework.http(vault.vault_proxy)
