"""Checkov, as the tests run it, sees what there is to see."""

from pathlib import Path

from tests.infra.checkov import run_checkov

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


def write(directory: Path, name: str, *, https: bool, suppression: str = "") -> None:
    text = STORAGE.format(https=str(https).lower(), suppression=suppression)
    (directory / name).write_text(text)


def test_what_it_reports(tmp_path: Path) -> None:
    write(tmp_path, "good.bicep", https=True)
    write(tmp_path, "bad.bicep", https=False)
    write(
        tmp_path,
        "excused.bicep",
        https=False,
        suppression=f"  // checkov:skip={CHECK}: why it is right here\n",
    )
    report = run_checkov("bicep", tmp_path)
    assert [one.file for one in report.passed if one.check == CHECK] == ["good.bicep"]
    assert [one.file for one in report.failed if one.check == CHECK] == ["bad.bicep"]
    excused = [one for one in report.suppressed if one.check == CHECK]
    assert [(one.file, one.said) for one in excused] == [("excused.bicep", "why it is right here")]
    assert {file for file, _ in report.seen} == {"good.bicep", "bad.bicep", "excused.bicep"}
