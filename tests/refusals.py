"""Tests of what is refused, from tables: a call, the sentence of its error, and the kind of the error."""

import pytest


def refused(*cases):
    """A test with one case for each (call, sentence) or (call, sentence, kind), whose kind is ValueError by default."""

    @pytest.mark.every
    @pytest.mark.parametrize(
        ("call", "sentence", "kind"), [(*case, ValueError)[:3] for case in cases], ids=[case[1] for case in cases]
    )
    def test(call, sentence, kind):
        with pytest.raises(kind, match=sentence):
            call()

    return test
