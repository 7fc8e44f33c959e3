from datetime import UTC, datetime

import pytest

from core.mail import FileMailer, Mail, as_message


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def test_in_development_a_mail_is_a_dated_file_that_only_its_owner_reads(tmp_path):
    FileMailer(tmp_path / "outbox", "shop@localhost", StoppedClock()).deliver(
        Mail("msg_1", "a@b.example", "Hi", "Text")
    )

    (file,) = (tmp_path / "outbox").iterdir()

    assert file.name == "20260701T120000-msg_1.eml"
    assert file.stat().st_mode & 0o077 == 0
    assert "To: a@b.example" in file.read_text()


@pytest.mark.parametrize("field", ["to", "subject"])
def test_a_line_break_adds_no_header(field):
    fields = {"message_id": "msg_1", "to": "a@b.example", "subject": "Hi", "text": "Text"}

    with pytest.raises(ValueError, match=r"linefeed|carriage"):
        as_message(Mail(**(fields | {field: "x\r\nBcc: all@b.example"})), "shop@localhost")
