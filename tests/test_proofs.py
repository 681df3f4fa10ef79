"""What `scripts/prove` runs is there: a group whose tests were moved would prove nothing."""

import pytest

from support.prove import ROOT, main, proofs


@pytest.mark.parametrize("proof", proofs(), ids=lambda proof: proof.says)
def test_the_tests_of_a_promise_are_there(proof):
    assert [test for test in proof.tests if not (ROOT / test).exists()] == []


def test_words_that_no_promise_has_prove_nothing(capsys):
    assert main(["nothing of the kind"]) == 1
    assert "promise" in capsys.readouterr().out
