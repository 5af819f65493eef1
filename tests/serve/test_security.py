"""Who is answered, and with which headers."""

import pytest
from starlette.testclient import TestClient

from vitrail.serve.security import COOKIE, HEADERS

PORT = 8471
ADDRESS = f"http://127.0.0.1:{PORT}"
PAGES = (
    "/",
    "/text",
    "/static/index.html",
    "/static/none.js",
    "/api/models",
    "/api/runs",
    "/none",
    "/api/images/x",
    "/api/classify/attention?look=x",
    "/api/translate/read",
    "/api/translate/attention?look=x",
)


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_headers(page, path):
    for answer in (page.get(path), page.post(path), page.get(path, headers={"Host": "evil.example"}), page.options(path)):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert not any(name.startswith("access-control") for name in answer.headers)
        assert "Cache-Control" in answer.headers
        if answer.status_code >= 400:
            assert list(answer.json()) == ["error"]


def test_the_policy_allows_no_other_host_and_nothing_inline():
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"[::1]:{PORT}", f"LOCALHOST:{PORT}"])
def test_our_own_names_are_answered(page, host):
    assert page.get("/api/models", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "localhost:80", f"127.0.0.1:{PORT}.evil.example", ""]
)
def test_another_host_is_misdirected(page, host):
    for path in ("/", "/static/index.html", "/api/models"):
        answer = page.get(path, headers={"Host": host})
        assert answer.status_code == 421
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": f"https://127.0.0.1:{PORT}"}, {"Origin": f"http://localhost:{PORT}"},
        {"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(page, upload, digit, encode, headers):
    image = upload(encode(digit)).json()["id"]
    for answer in (
        page.post("/api/images", files={"file": ("a.png", encode(digit))}, headers=headers),
        page.post("/api/classify/look", json={}, headers=headers),
        page.get(f"/api/images/{image}", headers=headers),
        page.get("/api/models", headers=headers),
    ):
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_a_link_from_another_site_opens_the_page_and_takes_no_session_away(app):
    client = TestClient(app, base_url=ADDRESS)
    answer = client.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


def test_the_session_is_a_strict_cookie_of_128_bits_that_stays(app):
    client = TestClient(app, base_url=ADDRESS)
    given = client.get("/").headers["set-cookie"]
    name, _, rest = given.partition("=")
    value, *flags = (part.strip() for part in rest.split(";"))
    assert (name, len(value), int(value, 16) > 0) == (COOKIE, 32, True)
    assert set(flags) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert "set-cookie" not in client.get("/").headers
    assert "set-cookie" not in client.get("/api/models").headers
    assert TestClient(app, base_url=ADDRESS).get("/").cookies[COOKIE] != value
    forged = client.get("/", headers={"Cookie": f"{COOKIE}=../../x"})
    assert "set-cookie" in forged.headers


def test_two_people_do_not_see_each_others_images(browse, look, upload, digit, encode):
    one, other = browse(), browse()
    image = upload(encode(digit), client=one).json()["id"]
    seen = look("cls", client=one)["id"]
    for path in (f"images/{image}", *(f"classify/{view}?look={seen}" for view in ("attention", "seen", "layers"))):
        assert one.get(f"/api/{path}").status_code == 200
        assert other.get(f"/api/{path}").status_code == 404
    assert other.get(f"/api/classify/attention?look={seen}").json() == {"error": "There is no such look in this session."}


@pytest.mark.parametrize("name", ["x", "0" * 32, "é" * 32, "%00", "..%2f..%2fetc"])
def test_wrong_names_are_not_found(page, ids, name, upload, digit, encode):
    image = upload(encode(digit)).json()["id"]
    for path in (
        f"images/{name}",
        f"classify/attention?look={name}",
        f"classify/seen?look={name}",
        f"models/{name}/samples",
        f"runs/{name}/curve",
    ):
        assert page.get(f"/api/{path}").status_code == 404
    assert page.get(f"/api/classify/attention?look={image}").status_code == 404  # an image is no look
    model = ids["cls"]["id"]
    assert page.post("/api/classify/look", json={"model": "x", "image": image}).status_code == 404
    assert page.post("/api/classify/look", json={"model": model, "image": "x"}).status_code == 404
    for number in (-1, 24, 10**20):
        assert page.get(f"/api/models/{model}/samples/{number}").status_code == 404
        assert page.post("/api/images", json={"model": model, "sample": number}).status_code == 404


def test_what_an_address_is_not_for_names_what_it_is_for(page):
    answer = page.post("/api/models")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")


def test_a_websocket_is_refused(page):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), page.websocket_connect("/api/live"):
        pass


def test_nothing_is_reported_to_anybody(runs, make_studio, monkeypatch, caplog):
    """FastAPI would send traces to the address that the environment names; here it does not even look for the means."""
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with TestClient(make_studio([runs], budget=64 << 20), base_url=ADDRESS) as client:
        assert client.get("/api/models").status_code == 200
    assert "telemetry" not in caplog.text
