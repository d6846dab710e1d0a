"""Fixtures: Terraform, with a provider that stands in for Google's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.planning import DATABASE, GCP, VAULT, Plan, Terraform
from tests.infra.provider_schema import load_schema
from tests.infra.stand_in_provider import running

NETWORK = {"network": "a-network", "subnetwork": "a-subnetwork", "connector": "a-connector"}


@pytest.fixture(scope="session")
def terraform(
    requires_terraform: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terraform]:
    """Terraform itself."""
    with running(load_schema()) as environment:
        yield Terraform(requires_terraform, environment, tmp_path_factory.mktemp("terraform"))


@pytest.fixture(scope="session")
def push_plan(terraform: Terraform) -> Plan:
    """What the defaults come to."""
    return terraform.plan({"delivery": "push"})


@pytest.fixture(scope="session")
def pull_plan(terraform: Terraform) -> Plan:
    """The same with a pull subscription, and with a network that everything goes through."""
    return terraform.plan({"delivery": "pull", "network": NETWORK, "vpc_egress": "ALL_TRAFFIC"})


@pytest.fixture(scope="session", params=["push", "pull"])
def proxied_plan(request: pytest.FixtureRequest, terraform: Terraform) -> Plan:
    """What bills through a spend-cap proxy."""
    return terraform.plan(
        {
            "delivery": request.param,
            "settings": {
                "VAULT_PROVIDER": "proxy",
                "VAULT_PROXY_URL": "https://calls.example.com",
                "VAULT_ADMIN_URL": "https://admin.example.com",
            },
            "secret_versions": {
                "database-url": "1",
                "vault-proxy-api-key": "1",
                "vault-encryption-key": "1",
            },
        }
    )


@pytest.fixture(scope="session")
def development_plan(terraform: Terraform) -> Plan:
    """What development.tfvars comes to."""
    return terraform.plan(variables_file=GCP / "development.tfvars")


@pytest.fixture(scope="session")
def production_plan(terraform: Terraform) -> Plan:
    """What production.tfvars comes to."""
    return terraform.plan(variables_file=GCP / "production.tfvars")


@pytest.fixture(scope="session")
def database_plan(terraform: Terraform) -> Plan:
    """The database and its network."""
    return terraform.plan(root=DATABASE)


@pytest.fixture(scope="session")
def vault_plan(terraform: Terraform) -> Plan:
    """The spend-cap proxy."""
    return terraform.plan(root=VAULT)


@pytest.fixture(params=["push", "pull"])
def either_plan(request: pytest.FixtureRequest) -> Plan:
    """Both of them."""
    plan: Plan = request.getfixturevalue(f"{request.param}_plan")
    return plan
