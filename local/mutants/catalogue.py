"""The mutants."""

from __future__ import annotations

from local.mutants.mutant import MIGRATIONS, Mutant
from local.simulation import Flows

_TWO_STEPS = Flows.PAYMENT_INTENT
_ONE_STEP = Flows.CHARGE
_BILLER = "shared/biller.py"
_INTENT = "shared/intent_flow.py"
_CHARGE = "shared/charge_flow.py"
_ANSWERS = "shared/stripe_answers.py"
_RECORDS = f"{MIGRATIONS}/0001_records.sql"
_RECOVERY = f"{MIGRATIONS}/0004_recovery.sql"
_RULES = f"{MIGRATIONS}/0011_recovery_rules.sql"
_VAULT = f"{MIGRATIONS}/0005_vault.sql"
_PROOF = f"{MIGRATIONS}/0009_vault_proof.sql"
_RUN_KEYS = "shared/run_keys.py"

TWO_STEP_FLOW = (
    Mutant(
        "declined without a cancel",
        _INTENT,
        'intent.id, "lease_lost")\n        return self._cancel(intent, verdict)',
        'intent.id, "lease_lost")\n        return self._conclude_canceled(intent, verdict)',
        flows=_TWO_STEPS,
    ),
    Mutant(
        "canceled without a stored verdict",
        _INTENT,
        "if not self._work.records.store_verdict(self._record.lease, verdict):",
        "if False:",
        flows=_TWO_STEPS,
    ),
    Mutant(
        "the PaymentIntent just created is confirmed, not the stored one",
        _INTENT,
        "return created if stored_id == created.id else self._read(stored_id)",
        "return created",
        ("tests/scenarios/test_redelivery.py",),
    ),
    Mutant(
        "confirmed without being stored",
        _INTENT,
        "stored_id = self._work.records.store_payment(self._record.lease, created.id)",
        "stored_id = created.id",
        flows=_TWO_STEPS,
    ),
    Mutant(
        "confirmed although the lease was lost while storing",
        _INTENT,
        'return Concluded(Conclusion.LEASE_LOST, code="lease_lost")\n        return created',
        "return created\n        return created",
        flows=_TWO_STEPS,
    ),
    Mutant(
        "a stored payment that is missing is a rejection",
        _INTENT,
        "            return conclude_unclear(result)\n        # Reading",
        "            return conclude(Conclusion.REJECTED, answer)\n        # Reading",
        ("tests/scenarios/test_events.py",),
    ),
    Mutant(
        "processing is recorded as charged",
        _INTENT,
        "return Concluded(Conclusion.PROCESSING, intent.id, request_id=intent.request_id)",
        "return Concluded(Conclusion.CHARGED, intent.id, request_id=intent.request_id)",
        flows=_TWO_STEPS,
    ),
    Mutant(
        "an answer about another PaymentIntent is believed",
        _INTENT,
        "if intent is None or intent.id != payment_id:",
        "if intent is None:",
        ("tests/scenarios/test_answers.py",),
    ),
    Mutant(
        "a key that others have used is made anew",
        _INTENT,
        "result.answer.kind is AnswerKind.IN_DOUBT and result.answer.replayed",
        "result.answer.kind is AnswerKind.CONFLICT",
        ("tests/scenarios/test_events.py",),
    ),
    Mutant(
        "the stored verdict is forgotten",
        _INTENT,
        "        if self._record.verdict is not None:\n"
        "            return self._cancel(intent, self._record.verdict)\n",
        "",
        ("tests/scenarios/test_redelivery.py", "tests/scenarios/test_canceling.py"),
    ),
)

ONE_STEP_FLOW = (
    Mutant(
        "the idempotency key is trusted for ever",
        _CHARGE,
        "work.age_seconds >= replay_hours * SECONDS_PER_HOUR",
        "work.age_seconds < 0",
        flows=_ONE_STEP,
    ),
    Mutant(
        "absence is believed while a request may be running",
        _CHARGE,
        "        if not work.is_quiet:\n            return Concluded(Conclusion.IN_DOUBT,"
        ' code="earlier_request_may_be_running")\n',
        "",
        ("tests/scenarios/test_answers.py",),
    ),
    Mutant(
        "a refusal after a lost answer is believed",
        _CHARGE,
        "return _conclude_after_doubt(work, refusal, result) if sent_before else refusal",
        "return refusal",
        ("tests/scenarios/test_answers.py",),
    ),
    Mutant(
        "the list is not searched after the window",
        _CHARGE,
        "        if isinstance(found, Concluded):\n            return found\n"
        "        if not work.is_quiet:",
        "        if not work.is_quiet:",
        flows=_ONE_STEP,
    ),
)

ANSWERS = (
    Mutant(
        "a server error is a decline",
        _ANSWERS,
        "        return _classify_invalid_request(error)\n    return AnswerKind.IN_DOUBT",
        "        return _classify_invalid_request(error)\n    return AnswerKind.DECLINED",
    ),
    Mutant(
        "silence counts as never sent",
        _ANSWERS,
        "kind = AnswerKind.IN_DOUBT if response.sent else AnswerKind.NEVER_SENT",
        "kind = AnswerKind.NEVER_SENT",
        ("tests/core/test_stripe_answers.py", "tests/scenarios/test_answers.py"),
    ),
    Mutant(
        "an unexpected state is a rejection",
        _ANSWERS,
        "        return AnswerKind.DECIDED_BY_INTENT",
        "        return AnswerKind.REJECTED",
        ("tests/core/test_stripe_answers.py",),
    ),
    Mutant(
        "an unreadable answer is a success",
        _ANSWERS,
        '            AnswerKind.IN_DOUBT,\n            code="unreadable_answer",',
        '            AnswerKind.OK,\n            code="unreadable_answer",',
        ("tests/core/test_stripe_answers.py", "tests/scenarios/test_answers.py"),
    ),
    Mutant(
        "a retry forgets the doubt of the attempt before",
        "shared/stripe_calls.py",
        "maybe_executed = maybe_executed or answer.kind is AnswerKind.IN_DOUBT",
        "maybe_executed = answer.kind is AnswerKind.IN_DOUBT",
        ("tests/core/test_stripe_calls.py",),
    ),
    Mutant(
        "the budget is not looked at",
        "shared/stripe_calls.py",
        "if not budget.allows_request(pause_seconds):",
        "if budget is None:",
        ("tests/core/test_stripe_calls.py", "tests/core/test_timing.py"),
    ),
    Mutant(
        "another account's key is accepted",
        "shared/identity.py",
        "if account_id is not None and stored.account_id != account_id:",
        "if account_id is None and stored is None:",
        ("tests/scenarios/test_events.py",),
    ),
)

MESSAGES = (
    Mutant(
        "the message id is in the key",
        _BILLER,
        "rules.key_namespace)\n        return ClaimRequest(",
        "rules.key_namespace + delivery.envelope.message_id)\n        return ClaimRequest(",
    ),
    Mutant(
        "the flow comes from the settings, not from the row",
        _BILLER,
        "if record.flow is Flow.PAYMENT_INTENT:",
        "if self._rules.flow is Flow.PAYMENT_INTENT:",
        flows=Flows.MIXED,
    ),
    Mutant(
        "settled while the database is away",
        _BILLER,
        'return _transient("database_unavailable", str(error))',
        "return Decision(Outcome.CHARGED, DecisionEvent.CHARGED)",
    ),
    Mutant(
        "a message of unknown outcome is completed",
        "shared/outcome.py",
        "Outcome.IN_DOUBT: Disposition.LEAVE,",
        "Outcome.IN_DOUBT: Disposition.COMPLETE,",
        ("tests/scenarios/test_answers.py", "tests/push/test_answers.py"),
    ),
    Mutant(
        "a message without a run is completed",
        "shared/outcome.py",
        "Outcome.RUN_MISSING: Disposition.LEAVE,",
        "Outcome.RUN_MISSING: Disposition.COMPLETE,",
    ),
    Mutant(
        "a message is handed over without being kept",
        _BILLER,
        "            self._records.keep(event, delivery.body, note)\n",
        "            str(note)\n",
    ),
    Mutant(
        "a kept message is dropped when it is left",
        "shared/reconcile.py",
        '        """See `Settlement.leave`: it rests since it was taken up."""\n',
        '        """See `Settlement.leave`."""\n        self._drop()\n',
    ),
    Mutant(
        "an invalid message is dead-lettered without a copy",
        _BILLER,
        "        self._records.park(parked, note)\n",
        "        str((parked, note))\n",
    ),
    Mutant(
        "a higher attempt is swallowed by an earlier one",
        _BILLER,
        "        return _leave_higher_attempt(decision, event)",
        "        return decision",
    ),
    Mutant(
        "reconcile takes up what only people may",
        _BILLER,
        "None if conclusion is Conclusion.CONFLICT else RELEASE_PAUSE_SECONDS",
        "RELEASE_PAUSE_SECONDS",
        ("tests/scenarios/test_events.py", "tests/scenarios/test_canceling.py"),
    ),
    Mutant(
        "a young orphan is canceled",
        "shared/orphans.py",
        "is_old = database_time - found.created_at >= timedelta(seconds=quiet_seconds)",
        "is_old = database_time != found.created_at + timedelta(seconds=quiet_seconds)",
        ("tests/scenarios/test_orphans.py",),
    ),
    Mutant(
        "a pushed message is acknowledged before its dead letter is safe",
        "gcp_function/settlement.py",
        "        self._dead_letters.publish(self._delivery.body, attributes)\n"
        "        self._status = ACKNOWLEDGED\n",
        "        self._status = ACKNOWLEDGED\n"
        "        self._dead_letters.publish(self._delivery.body, attributes)\n",
        ("tests/push/test_dead_letters.py", "tests/push/test_answers.py"),
    ),
    Mutant(
        "a pushed message that is left is acknowledged",
        "gcp_function/settlement.py",
        "        self._status = LEFT\n",
        "        self._status = ACKNOWLEDGED\n",
        ("tests/push/test_dead_letters.py", "tests/push/test_answers.py"),
    ),
)

RECORDS = (
    Mutant(
        "no fence at the end of a record",
        _RECORDS,
        "    ELSIF stored.fence = p_fence\n        AND stored.holder IS NOT NULL\n"
        "        AND stored.state IN ('in_progress', 'in_doubt', 'processing')\n    THEN",
        "    ELSIF stored.state IN ('in_progress', 'in_doubt', 'processing')\n    THEN",
        ("tests/store/test_endings.py",),
    ),
    Mutant(
        "no fence when a payment is stored",
        _RECORDS,
        "    SET payment_id = coalesce(target.payment_id, p_payment_id),\n"
        "        updated_at = clock_timestamp()\n"
        "    WHERE target.customer_id = p_customer_id\n"
        "      AND target.billing_period = p_billing_period\n"
        "      AND target.fence = p_fence\n",
        "    SET payment_id = coalesce(target.payment_id, p_payment_id),\n"
        "        updated_at = clock_timestamp()\n"
        "    WHERE target.customer_id = p_customer_id\n"
        "      AND target.billing_period = p_billing_period\n",
        ("tests/store/test_endings.py",),
    ),
    Mutant(
        "the last payment that is stored wins, not the first",
        _RECORDS,
        "payment_id = coalesce(target.payment_id, p_payment_id),\n        updated_at",
        "payment_id = p_payment_id,\n        updated_at",
        ("tests/store/test_endings.py",),
    ),
    Mutant(
        "a lease that is not over is taken over",
        _RECORDS,
        "        WHEN stored.lease_until > clock_timestamp() THEN 'busy'\n",
        "",
        ("tests/store/test_claims.py", "tests/store/test_concurrency.py"),
    ),
    Mutant(
        "a charged record is claimed again",
        _RECORDS,
        "ELSIF stored.state NOT IN ('in_progress', 'in_doubt') THEN\n        RETURN 'settled';",
        "ELSIF stored.state NOT IN ('in_progress', 'in_doubt', 'charged') THEN\n"
        "        RETURN 'settled';",
        ("tests/store/test_claims.py",),
    ),
    Mutant(
        "an event with another amount is taken for the same",
        _RECORDS,
        "        OR stored.amount_cents <> p_amount_cents\n",
        "",
        ("tests/store/test_claims.py",),
    ),
    Mutant(
        "proof from an outdated holder is refused",
        _RECORDS,
        "    ELSIF p_state = 'charged' THEN\n        RETURN 'write';\n",
        "",
        ("tests/store/test_endings.py",),
    ),
    Mutant(
        "a parked attempt is opened again under its old create key",
        _RECORDS,
        "CASE WHEN is_next THEN 0 ELSE target.create_number + 1 END",
        "0",
        ("tests/store/test_claims.py",),
    ),
    Mutant(
        "a database that may have lost commits goes on charging",
        _RECORDS,
        "    IF chargeonce.is_suspended() THEN\n        RETURN 'suspended';\n"
        "    ELSIF stored.customer_id IS NULL THEN",
        "    IF false THEN\n        RETURN 'suspended';\n    ELSIF stored.customer_id IS NULL THEN",
        ("tests/store/test_claims.py", "tests/scenarios/test_rebuild.py"),
    ),
    Mutant(
        "the cap is not looked at",
        _RECORDS,
        "\n      AND target.held_cents + target.charged_cents + p_amount_cents"
        " <= target.cap_cents;",
        ";",
        ("tests/store/test_claims.py",),
    ),
    Mutant(
        "the cap is checked, then counted",
        _RECORDS,
        "AND target.held_cents + target.charged_cents + p_amount_cents <= target.cap_cents;",
        "AND (SELECT seen.held_cents + seen.charged_cents FROM chargeonce.runs AS seen\n"
        "           WHERE seen.billing_period = p_billing_period)\n"
        "          + p_amount_cents <= target.cap_cents;",
        ("tests/store/test_concurrency.py",),
    ),
    Mutant(
        "the hold is released when the outcome is unknown",
        _RULES,
        "        doubts = target.doubts + p_doubt::integer,\n",
        "        doubts = target.doubts + p_doubt::integer,\n        held_cents = 0,\n",
        ("tests/store/test_endings.py", "tests/scenarios/test_runs.py"),
    ),
    Mutant(
        "the hold of a bank debit is released before it settles",
        _RECOVERY,
        "CASE WHEN is_processing THEN target.held_cents ELSE 0 END",
        "0",
        ("tests/store/test_endings.py",),
    ),
    Mutant(
        "reconcilers take up the same record",
        _RECOVERY,
        "        due_at = clock_timestamp() + chargeonce.reconcile_pause(looked, p_lease_seconds)\n"
        "    WHERE target.customer_id",
        "        due_at = target.due_at\n    WHERE target.customer_id",
        ("tests/store/test_kept_messages.py",),
    ),
)

VAULT = (
    Mutant(
        "a vault key's total cap is not looked at",
        _VAULT,
        "          OR target.held_cents + target.spent_cents + p_amount_cents"
        " <= target.total_cap_cents\n",
        "          OR true\n",
        ("tests/vault/test_spending.py",),
    ),
    Mutant(
        "a vault key's daily cap is not looked at",
        _VAULT,
        "          <= target.daily_cap_cents\n",
        "          <= target.daily_cap_cents + 1000000000\n",
        ("tests/vault/test_spending.py", "tests/vault/test_concurrency.py"),
    ),
    Mutant(
        "the proxy gives back what has an unknown outcome",
        _PROOF,
        "    IF NOT FOUND OR p_effect IN ('none', 'unknown') THEN\n        RETURN;\n    END IF;",
        "    IF NOT FOUND OR p_effect = 'none' THEN\n        RETURN;\n    END IF;\n"
        "    p_effect := CASE p_effect WHEN 'unknown' THEN 'impossible' ELSE p_effect END;",
        ("tests/vault/test_spending.py",),
    ),
    Mutant(
        "a revoked vault key works",
        _VAULT,
        "        WHEN kept.revoked_at IS NOT NULL THEN 'key_revoked'\n",
        "",
        ("tests/vault/test_admin.py", "tests/vault/test_hostile_calls.py"),
    ),
    Mutant(
        "the vault key that is replaced is not revoked",
        _RUN_KEYS,
        "            self._service.revoke(begun.key_id)\n",
        "            str(begun.key_id)\n",
        ("tests/vault/test_run_keys.py",),
    ),
    Mutant(
        "a vault key that nobody stored lives on",
        _RUN_KEYS,
        "            self._revoke_strays(run)\n        else",
        "            str(run)\n        else",
        ("tests/vault/test_run_keys.py",),
    ),
    Mutant(
        "a vault key is stored under an outdated generation",
        "shared/store/run_keys.py",
        "WHERE target.billing_period = %s AND target.generation = %s\nRETURNING target.generation",
        "WHERE target.billing_period = %s AND target.generation >= %s\nRETURNING target.generation",
        ("tests/vault/test_run_keys.py", "tests/store/test_run_keys.py"),
    ),
    Mutant(
        "a new vault key may spend what the proxy holds",
        _RUN_KEYS,
        "max(money.charged_cents, spent_cents) - held_cents",
        "max(money.charged_cents, spent_cents)",
        ("tests/vault/test_run_keys.py",),
    ),
)

MUTANTS = (*TWO_STEP_FLOW, *ONE_STEP_FLOW, *ANSWERS, *MESSAGES, *RECORDS, *VAULT)
