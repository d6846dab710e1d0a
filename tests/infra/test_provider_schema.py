"""The provider's schema beside the tests is the provider's own."""

from pathlib import Path

import pytest

from tests.infra.planning import GCP
from tests.infra.provider_schema import (
    PROVIDER_VERSION,
    SCHEMA_FILE,
    download,
    dumped,
    extract,
    load_schema,
)


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_it_is_what_the_bindings_say(tmp_path: Path) -> None:
    """Downloads the bindings that are generated from the provider."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == dumped(extract(download(tmp_path)))


def test_it_is_of_the_version_that_is_asked_for() -> None:
    major_and_minor = PROVIDER_VERSION.rpartition(".")[0]
    for folder in (GCP, GCP / "database", GCP / "vault"):
        assert f'version = "~> {major_and_minor}"' in (folder / "versions.tf").read_text()


def test_it_knows_what_matters() -> None:
    """What was extracted is not empty: blocks within blocks, required and computed attributes."""
    subscription = load_schema()["resources"]["google_pubsub_subscription"]
    assert subscription["attributes"]["topic"] == {"type": "string", "required": True}
    assert subscription["attributes"]["id"] == {"type": "string", "computed": True}
    push = subscription["blocks"]["push_config"]["block"]
    assert push["blocks"]["oidc_token"]["block"]["attributes"]["audience"] == {"type": "string"}
    function = load_schema()["resources"]["google_cloudfunctions2_function"]
    service = function["blocks"]["service_config"]["block"]["attributes"]
    assert service["uri"] == {"type": "string", "computed": True}
