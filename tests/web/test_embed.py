"""What pages of others show in a frame is the result alone, and only that may be framed."""

from __future__ import annotations

import re

from starlette.testclient import TestClient

from eree.web.linked import LinkedTable


def test_a_result_may_be_framed_and_its_whole_page_may_not(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name, query = tables["jobs"].name, "rows=sector&cols=ownership&show=margin"
    for view in ("", "/chart", "/map"):
        own = query if view != "/map" else "rows=place&show=margin"
        whole = client.get(f"/d/{name}{view}?{own}")
        framed = client.get(f"/d/{name}{view}/embed?{own}")
        assert whole.status_code == framed.status_code == 200
        assert whole.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in whole.headers["content-security-policy"]
        policy = framed.headers["content-security-policy"]
        assert "x-frame-options" not in framed.headers and "frame-ancestors *" in policy
        assert (
            "form-action 'none'" in policy
            and "script-src" not in policy
            and policy.startswith("default-src 'none'")
        )
        assert "<form" not in framed.text and "<script" not in framed.text
        assert '<base target="_blank">' in framed.text
        result = re.search(r'<main class="embed">(.*)</main>', framed.text, re.DOTALL)
        form = '<p class="jump">.*?</p>\n|</?form[^>]*>|<input[^>]*>|<button[^>]*>[^<]*</button>'
        assert result and '"#builder"' not in framed.text  # nothing leads to what is not there
        inside = re.fullmatch(
            r"<h1[^>]*>(.*?)</h1>(.*)<p class=\"links\">.*</p>", result[1], re.DOTALL
        )
        assert inside and f"{inside[2].strip()}</section>" in re.sub(form, "", whole.text)
        assert f"<h1>{inside[1]}</h1>" in whole.text
        assert result[1].count("<section") == result[1].count("</section>")
        assert "<table" in result[1] or "<svg" in result[1]
        assert len(framed.content) < len(whole.content)
        (address,) = re.findall(r'<link rel="canonical" href="([^"]*)">', framed.text)
        assert client.get(address.replace("&amp;", "&")).content == whole.content
    wrong = client.get(f"/d/{name}/embed?rows=nothing&show=margin")
    assert wrong.status_code == 400 and wrong.headers["x-frame-options"] == "DENY"
