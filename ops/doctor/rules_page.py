"""The text of docs/doctor.md, from the rules themselves."""

from __future__ import annotations

from ops.doctor.rules import RULES

_PAGE = """\
# chargeonce doctor

Looks at a deployment, or at the templates that make one, for whatever could charge a customer
twice, lose an event or stop billing. It changes nothing: not in the database, not at Stripe, not at
a broker.

    chargeonce doctor                     # what runs, with the settings of this process
    chargeonce doctor --instances 5       # add up connections and requests of five instances
    chargeonce doctor --offline           # infra/, host.json, local.settings.json, the settings
    chargeonce doctor --strict --json     # for scripts

| exit code | means |
|---|---|
| 0 | nothing was found, or warnings without `--strict` |
| 7 | something was found |
| 9 | nothing was found, and something could not be read: it is told what and why |

**What it needs.** The deployment's settings. For Service Bus the right to manage (role Azure
Service Bus Data Owner), for Pub/Sub `roles/pubsub.viewer` and, to see the grants of Pub/Sub's own
account, `pubsub.topics.getIamPolicy` and `pubsub.subscriptions.getIamPolicy`. It asks Stripe for
one object of each kind that is read; whether the key may create a PaymentIntent is not tried,
because that would create one. Emulators lack the management API and the grants; that makes nothing
incomplete. `--offline` needs the packages that read Bicep and Terraform: `python -m pip install -r
requirements-dev.txt`. It follows parameters, variables and conditions of the shipped templates,
once for each parameter file and way of delivery; where a template is built in another way it says
that it could not read it.

**What it cannot see.** Who may call a function that is already deployed (`terraform plan` checks
that, and `--offline` reads the templates), how many instances a cloud really starts, and the
standby of a managed database.

Every finding has the name of its rule, which stays the same from version to version, what is so,
why that is bad, and how to mend it. This table is written by `make reference` from
`ops/doctor/rules`.

| rule | severity | why | mend |
|---|---|---|---|
{rows}
"""


def rules_page() -> str:
    """The text of docs/doctor.md."""
    rows = [f"| `{rule.name}` | {rule.severity} | {rule.why} | {rule.mend} |" for rule in RULES]
    return _PAGE.format(rows="\n".join(rows))
