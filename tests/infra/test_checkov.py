"""Checkov has nothing to say about the Bicep templates, and would say it if it had.

One run looks at all of them and at planted ones beside them: starting it takes seconds.
"""

import re
import shutil

import pytest

from tests.infra.bicep import AZURE, template_names
from tests.infra.checkov import Report, run_checkov

STORAGE = """\
resource store 'Microsoft.Storage/storageAccounts@2023-05-01' = {{
{suppression}  name: 'store'
  location: 'westeurope'
  kind: 'StorageV2'
  sku: {{ name: 'Standard_ZRS' }}
  properties: {{ supportsHttpsTrafficOnly: {https} }}
}}
"""
CHECK = "CKV_AZURE_3"
PLANTED = {
    "planted-good.bicep": STORAGE.format(https="true", suppression=""),
    "planted-bad.bicep": STORAGE.format(https="false", suppression=""),
    "planted-excused.bicep": STORAGE.format(
        https="false", suppression=f"  // checkov:skip={CHECK}: why it is right here\n"
    ),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What it says about ours and the planted ones."""
    directory = tmp_path_factory.mktemp("templates")
    for name in template_names():
        shutil.copy(AZURE / name, directory)
    for name, text in PLANTED.items():
        (directory / name).write_text(text)
    return run_checkov("bicep", directory)


def test_what_is_planted_is_told(report: Report) -> None:
    """Goal: it does look, and a suppression is told apart from a pass."""
    assert [one.file for one in report.passed if one.file in PLANTED and one.check == CHECK] == [
        "planted-good.bicep"
    ]
    assert [one.file for one in report.failed if one.file in PLANTED and one.check == CHECK] == [
        "planted-bad.bicep"
    ]
    excused = [one for one in report.suppressed if one.file in PLANTED]
    assert [(one.file, one.said) for one in excused] == [
        ("planted-excused.bicep", "why it is right here")
    ]


def test_nothing_is_found_in_ours(report: Report) -> None:
    """Goal: nothing fails in any file that it has a check for."""
    assert report.unreadable == ()
    assert [one for one in report.failed if one.file not in PLANTED] == []
    # It has none for Service Bus, alerts and the like; these it must have read.
    seen = {file for file, _ in report.seen}
    assert {"database.bicep", "function-app.bicep", "key-vault.bicep", "secret.bicep"} <= seen


def test_each_exception_is_said_why_and_used(report: Report) -> None:
    """Goal: an exception that nothing needs any more would hide the next finding."""
    written = [
        (check, name, why)
        for name in template_names()
        for check, why in re.findall(r"checkov:skip=(\w+): (.+)", (AZURE / name).read_text())
    ]
    used = [(one.check, one.file, one.said) for one in report.suppressed if one.file not in PLANTED]
    assert sorted(used) == sorted(written)
