"""Secrets by the kind: each name that means one, in whatever it is written, goes, and what has such a name alone stays."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import textwrap
import time
from collections.abc import Callable
from urllib.parse import quote

import asyncssh
import pytest

from reconciler.cli.commands.support.redaction import REMOVED, redacted

WORDS = ("Zk3vQ9xW7bT1mN5c", "hunter-Two.2", "tr0ub4dor&3x", "correcthorse", "p%a$s!wq", "7391482655")
"""What a secret may be, without what would end it."""
NAMES = (
    "password", "Password", "PASSWORD", "pw", "pass", "PW", "passwd", "pwd", "psk", "secret", "passphrase", "token", "TOKEN",
    "HF_TOKEN", "hubToken", "hub-token", "access_token", "refreshToken", "id_token", "api_key", "apiKey", "api-key", "API_KEY",
    "apikey", "AWS_SECRET_ACCESS_KEY", "aws_session_token", "secretKey", "client_secret", "private_key", "PrivateKey",
    "PresharedKey", "encryption-key", "signing_key", "PGPASSWORD", "REDIS_PASSWORD", "db_password", "db.password", "sshpass",
    "RECONCILER_TOKEN", "X-Api-Key", "x-auth-token", "Authorization", "proxy-authorization", "token_1", "password2", "tokenValue",
    "credential", "sessionKey", "otp", "storepass", "dbpass", "SMTP_PASS", "root-pw", "account_key", "tls-key",
)  # fmt: skip
FORMS = {
    "colon": "{n}: {v}",
    "colon alone": "{n}:{v}",
    "blanks around the colon": "{n} : {v}",
    "equals": "{n}={v}",
    "equals and blanks": "{n} = {v}",
    "tab": "{n}\t{v}",
    "column": "{n}      {v}",
    "arrow": "{n} -> {v}",
    "fat arrow": "{n} => {v}",
    "long arrow": "{n} → {v}",
    "assignment of Go": '{n} := "{v}"',
    "assignment of make": "{n} ?= {v}",
    "double quotes": '{n}: "{v}"',
    "single quotes": "{n}='{v}'",
    "backticks": "{n}: `{v}`",
    "Python": "{{'{n}': '{v}'}}",
    "Python bytes": "{{'{n}': b'{v}'}}",
    "subscript": 'config["{n}"] = "{v}"',
    "form field": "user[{n}]={v}",
    "call": 'set.{n}("{v}")',
    "JSON": '{{"a": 1, "{n}": "{v}", "b": 2}}',
    "tight JSON": '{{"{n}":"{v}"}}',
    "pretty JSON": '{{\n  "{n}": "{v}"\n}}',
    "a level below": '{{"{n}": {{"value": "{v}"}}}}',
    "a level below, pretty": '{{\n  "{n}": {{\n    "value": "{v}"\n  }}\n}}',
    "two levels below": '{{"{n}": {{"current": {{"text": "{v}"}}}}}}',
    "an array": '{{"{n}": ["{v}"]}}',
    "an array of two": '{{"{n}": ["{v}", "{v}"]}}',
    "an array, pretty": '{{"{n}": [\n  "{v}"\n]}}',
    "a field beside it": '{{"name": "{n}", "value": "{v}"}}',
    "a field beside it, pretty": '{{\n  "name": "{n}",\n  "value": "{v}"\n}}',
    "JSON in JSON": r'{{"body": "{{\"{n}\": \"{v}\"}}"}}',
    "JSON in JSON in JSON": r'{{"a": "{{\"b\": \"{{\\\"{n}\\\":\\\"{v}\\\"}}\"}}"}}',
    "YAML in JSON": r'{{"body": "a: 1\n{n}: {v}\nb: 2"}}',
    "YAML item": "- {n}: {v}",
    "flow of YAML": "{{{n}: {v}, b: 1}}",
    "block": "{n}: |\n  {v}\nb: 1",
    "folded block": "  {n}: >-\n    {v}\n  b: 1",
    "block of two lines": "{n}: |2\n  first\n  {v}\nb: 1",
    "a line below": "{n}:\n  {v}\nb: 1",
    "a mapping below": "{n}:\n  value: {v}\nb: 1",
    "two mappings below": "{n}:\n  of:\n    value: {v}\nb: 1",
    "a list below": "{n}:\n- {v}\nb: 1",
    "a list further in": "{n}:\n  - {v}\nb: 1",
    "an entry of env": "env:\n- name: {n}\n  value: {v}\n",
    "a tag of YAML": "{n}: !!str {v}",
    "export": "export {n}={v}",
    "setenv": "setenv {n}  {v}",
    "set of Windows": 'set "{n}={v}"',
    "set of fish": "set -gx {n} '{v}1'",
    "env": "env {n}={v} python run.py",
    "option": "prog --{n} {v} --port 1",
    "option with equals": "prog --{n}={v} --port 1",
    "option of Go": "prog -{n} {v}",
    "option of Java": "java -D{n}={v} Main",
    "option of Windows": "prog /{n}:{v}",
    "option in a list": '["prog", "--{n}", "{v}"]',
    "option in quotes": "prog --{n} '{v}'",
    "element": "<{n}>{v}</{n}>",
    "element with attributes": '<{n} encrypted="no">{v}</{n}>',
    "element on lines": "<{n}>\n  {v}\n</{n}>",
    "CDATA": "<{n}><![CDATA[{v}]]></{n}>",
    "attribute": '<login user="ada" {n}="{v}"/>',
    "attribute beside it": '<add key="{n}" value="{v}"/>',
    "named element": '<entry key="{n}">{v}</entry>',
    "property list": "<key>{n}</key>\n  <string>{v}</string>",
    "input of HTML": '<input name="{n}" type="text" value="{v}">',
    "part of a form": 'form-data; name="{n}"\r\n\r\n{v}\r\n--x',
    "query": "https://example.com/a?b=1&{n}={v}1",
    "fragment": "https://example.com/a#{n}={v}",
    "percent": "body=a%3D1%26{n}%3D{v}",
    "percent twice": "{n}%253D{v}",
    "connection string": "Server=a;{n}={v}",
    "TOML": '[a]\n{n} = "{v}"\n',
    "TOML on lines": '{n} = """\n{v}\n"""',
    "INI": "[a]\n{n} = {v}\n",
    "a line of a log": "12:00:01 INFO [x] cannot log in {n}={v} user=ada",
    "a repr": "Login(user='ada', {n}='{v}')",
    "a comment": "# {n}: {v}",
    "a diff": "+  {n}: {v}",
    "a header in curl": "curl -H '{n}: {v}' https://x",
    "carriage return": "{n}: {v}\r",
    "a no-break space": "{n}:\u00a0{v}",
    "a wide colon": "{n}\uff1a{v}",
    "a name in a colour": "\x1b[1;31m{n}\x1b[0m: {v}",
    "a name in a colour in JSON": r'{{"text": "\u001b[1m{n}\u001b[0m: {v}"}}',
    "a value in a colour": "{n}: \x1b[32m{v}\x1b[0m",
    "the value first": '{{"value": "{v}", "name": "{n}"}}',
    "the value first, pretty": '{{\n  "value": "{v}",\n  "name": "{n}"\n}}',
    "the value first, in YAML": "env:\n- value: {v}\n  name: {n}\n",
    "the value first, in HTML": '<input value="{v}" name="{n}">',
    "a field between": '{{"name": "{n}", "optional": false, "value": "{v}"}}',
    "a field between, in YAML": "env:\n- name: {n}\n  optional: false\n  value: {v}\n",
    "quotes over lines": 'export {n}="first\n{v}\nlast"',
    "the next line": "{n}=\\\n  {v}",
    "binary of YAML": "{n}: !!binary |\n  {v}\nb: 1",
    "an option in a list, with a dash": '["--{n}", "-{v}"]',
    "a file with commas": "name,{n},host\nada,{v},a\nbob,{v},b\n",
    "a file with commas and quotes": 'name,"{n}",host\n"ada, b","{v}",a\n',
    "a file with semicolons": "name;{n}\nada;{v}\n",
    "a file with tabs": "name\t{n}\nada\t{v}\nbob\t{v}\n",
    "a table of Markdown": "| name | {n} |\n|---|---|\n| ada | {v} |\n",
    "a table": "NAME    {n}    AGE\nada     {v}    3d\nbob     {v}    4d\n",
    "a table with a frame": "+------+-------+\n| name | {n} |\n+------+-------+\n| ada | {v} |\n",
}  # fmt: skip
WAYS_OF_PROGRAMS = (
    "sudo -S <<< {v}", "sudo -S true <<< '{v}'", "echo {v} | sudo -S true", "echo '{v}' | sudo -k -S -- true",
    "printf '{v}\\n' | sudo -S true", "sudo -S true <<EOF\n{v}\nEOF", "sudo -S true <<-'END'\n\t{v}\n\tEND",
    "echo ada:{v} | chpasswd", "echo {v} | docker login --password-stdin", "echo -n {v} | gh auth login --with-token",
    "docker login -u ada -p {v} host", "podman login -p{v}", "mysql -u root -p{v} db", "mysqldump -p{v} db", "sshpass -p '{v}' ssh x",
    "sshpass -p{v} ssh x", "redis-cli -h host -a {v} ping", "ldapsearch -x -w {v}", "zip -P {v} a.zip a", "unzip -P {v} a.zip",
    "plink -pw {v} host", "openssl rsa -passin pass:{v}", "smbclient //a/b -U ada%{v}", "htpasswd -bB file ada {v}",
    "xfreerdp /u:ada /p:{v}", "security unlock-keychain -p {v}", "curl -u ada:{v} https://x", "curl --user ada:{v} x",
    '["curl", "-u", "ada:{v}"]', "curl --proxy-user 'ada:{v}' x", "https://ada:{v}@git.example.com/a.git", "redis://:{v}@host:6379/0",
    "postgres://ada:{v}@host/db", "ssh://ada:{v}@host/x", "machine h login ada password {v}", "machine h\n  login ada\n  password {v}\n",
    "machine h password {v} login ada", "default password {v}", "db.example.com:5432:*:ada:{v}", "//registry.npmjs.org/:_authToken={v}",
    "//registry.npmjs.org/:_password={v}", ".example.com\tTRUE\t/\tTRUE\t0\tsession\t{v}", "Cookie: a=1; session={v}; b=2",
    "Set-Cookie: session={v}; Path=/", '["Authorization", "Bearer {v}"]', "(b'authorization', b'Bearer {v}')",
    '{{"name": "Cookie", "value": "session={v}"}}', "Authorization: Digest username=ada, response={v}", "[sudo] password for ada: {v}",
    "Enter passphrase for key '/home/ada/.ssh/id': {v}", "IDENTIFIED BY PASSWORD '{v}'",
    "IDENTIFIED BY '{v}'", "Password for 'https://ada@example.com': {v}", "postgres://ada:a@{v}@host/db", "contrase\u00f1a: {v}",
    "mot de passe : {v}", "\u043f\u0430\u0440\u043e\u043b\u044c: {v}", "\u5bc6\u7801\uff1a{v}", "Passwort lautet {v}", "Password: {v} {v}",
)  # fmt: skip
PREFIXED = (
    "ghp_{r}{r}", "gho_{r}{r}", "github_pat_{r}_{r}", "glpat-{r}{r}", "gldt-{r}{r}", "hf_{a}", "sk-{r}{r}", "sk-ant-api03-{r}-{r}",
    "sk-proj-{r}{r}", "xoxb-1234-{r}", "xapp-1-{r}", "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "npm_{r}{r}", "pypi-AgEIcHlwaS5vcmc{r}", "dckr_pat_{r}{r}", "SG.{r}.{r}", "rk_live_{r}", "sk_test_{r}", "whsec_{r}", "shpat_{r}{r}",
    "tskey-auth-{r}", "AGE-SECRET-KEY-1QQPQQQQQQQQQQQQQQQQQQQQQQQQ", "op_{r}{r}", "ops_{r}{r}", "gsk_{r}{r}", "xai-{r}{r}", "pplx-{r}{r}",
    "ya29.{r}{r}", "dop_v1_{r}", "hvs.{r}", "figd_{r}", "rubygems_{r}", "PMAK-{r}-{r}", "SK0123456789abcdef0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{r}", "$6$rounds=5000$salt$abcdefgh{r}", "{{SSHA}}{r}{r}",
)  # fmt: skip
AROUND = (
    "{v}",
    "key {v} used",
    '"{v}"',
    "a={v},b",
    "https://x/{v}/y",
    "('{v}')",
    "x:{v}",
    r"{{\"a\": \"{v}\"}}",
)

READABLE = (
    "tokens: 512", "max_tokens: 4096", '"max_tokens": 4096', "maxTokens=4096", '"prompt_tokens": 812', "tokenizer: Qwen2Tokenizer",
    '"tokenizer": "Qwen2Tokenizer"', "tokenizer_config.json: 12345", "tokenizerClass = Qwen2Tokenizer", "tokensPerSecond: 41.7",
    "--max-tokens 4096 --port 1", "--tokenizer mlx-community/Qwen3", "eos_token_id: 151645", '"bos_token_id": 151643', "tokens/s: 41.75",
    "token_count: 81234", '"tokenCount": 81234', "password: null", '"password": null', "password: ''", 'password: ""', "password:", "token: ~",
    "token: true", '"secret": false', "token: <none>", "password=$PASSWORD", 'token: "${{HF_TOKEN}}"', "token: ${{{{ secrets.HF_TOKEN }}}}",
    'token: "$(cat /run/token)"', "token: {{file: /run/token}}", "token:\n  env: HF_TOKEN\nb: 1", '{{"token": {{"file": "/run/token"}}}}',
    '"token": {{\n  "env": "HF_TOKEN"\n}}', "password: {{valueFrom: {{secretKeyRef: {{name: redis, key: word}}}}}}", "passwordFile: /run/redis",
    "keyFile: ~/.ssh/id_ed25519", "tokenRef: {{env: HF_TOKEN}}", "secretRef:\n  token:\n    file: /run/token\n", "secretName: redis-main",
    "imagePullSecretRef: registry-main", "password:\nuser: ada", "  password:\n  user: ada", "the password is not set", "the token is missing",
    "password authentication is off", "this token was expected at line 3", "wrong password for ada", "the secret of a group", "token ids follow",
    "secrets are taken out", "a pass took 31 ms", "passes: 12345", "passed: 12345", "bypass: enabled", "compass: north-east", "passive: standby",
    "passthrough=enabled", "key: tiny/0", "keys: [agent, console]", "keyboard: english", '"key": "node-a/weights"', "monkey: banana",
    "auth: {{mode: keys}}", "auth:\n  mode: keys", "authMode=keys", "author: Ada Lovelace", "authority: example.com", "basic authentication",
    "registry.example.com/app@sha256:{d}", '"digest": "sha256:{d}"', "sha256:{d}", "model.safetensors sha256:{d} 4.1 GiB", "sha512:{d}{d}",
    "commit {c}", "revision: {c}", '"revision": "{c}"', "git:{c}", "{c} in force", "refs/heads/main {c}", "SHA256:47DEQpj8HBSahTImW95JCeuQeRkm5NMpJWZG3hSuFUk",
    "SHA256:jYd3bVhQ+H1mRx/0aQ2B7s6b4pGk0V5wq9yXc8fE2tM", "MD5:16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMb0bq3dJ8xY7Qw2kL5nV9rT1uZ6cE4hG0fS3aP8oB2i ada", "uid=501(ada) gid=20(staff)",
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT ada",
    "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIE ada", "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmg\n-----END CERTIFICATE-----", "mlx-community/Meta-Llama-3.1-405B-Instruct-4bit", "Qwen3-Next-80B-A3B-Instruct-4bit",
    "rank tiny.0.3.1 on node-b (epoch 3, pid 4201) was killed by signal 9", "http://127.0.0.1:8400/v1/chat/completions", "ssh://ada@studio-1.local:22/x",
    "git@github.com:ada/cluster.git", "reconciler key create agent --console operate", "node-a:10443:x y", "studio-1.local:22: connection refused",
    "docker run -p 8080:80 nginx", "mkdir -p /srv/models/x", "ssh -p 2222 ada@host", "curl -u ada https://x", "echo hello | sudo tee /etc/motd", "sudo -n true",
    "npm_config_registry: https://registry.npmjs.org", "key_management_documentation_page", "pat-matching-is-documented-here", "op_convolution_two_dimensional",
    "NAME    TOKEN    AGE\nada     3d", "USER\tPASSWORD\tAGE", "| name | password |\n|---|---|", "1754000000:weights:node-a", "2026-11-27T16:30:42.123456Z",
    "3fa85f64-5717-4562-b3fc-2c963f66afa6", "0x00007fff5fbff8a0", "fe80::1c2b:3a4d:5e6f:7a8b", "50:3e:aa:01:02:03", "memory 137438953472 bytes",
    "/Library/Frameworks/Python.framework/Versions/3.12/bin/python3.12", "aGVsbG8gd29ybGQsIHRoaXMgaXMgZmluZQ==", "Documentation", "configuration",
)  # fmt: skip
ENVELOPES = ("{v}", "before\n{v}\nafter", "2026-11-27T16:30:42Z INFO {v}", "- {v}")


@pytest.mark.parametrize("form", FORMS)
def test_the_value_of_a_name_that_means_a_secret_goes(form: str) -> None:
    kept = []
    every = itertools.product(("password", "token"), WORDS)
    for name, word in itertools.chain(zip(NAMES, itertools.cycle(WORDS), strict=False), every):
        if form in ("query", "percent", "percent twice", "connection string", "fragment") and "&" in word:
            continue
        text = FORMS[form].format(n=name, v=word)
        if word in redacted(f"before\n{text}\nafter"):
            kept.append(text)
    assert kept == []


@pytest.mark.parametrize("way", WAYS_OF_PROGRAMS)
def test_what_programs_are_given_goes(way: str) -> None:
    for word in WORDS:
        if "&" in word and not set("'<\"") & set(way):
            continue  # a shell ends the command there
        assert word not in redacted(f"before\n{way.format(v=word)}\nafter")


@pytest.mark.parametrize("form", PREFIXED)
def test_what_services_call_their_keys_goes_wherever_it_is(form: str) -> None:
    word = form.format(r="Zk3vQ9xW7bT1mN5c", a="abcdefghijklMNOPQRSTuvwxyzabcdefgh")
    for around in AROUND:
        assert word not in redacted(around.format(v=word)), around


@functools.cache
def private_keys() -> dict[str, str]:
    keys = {
        f"{kind} as {form}": asyncssh.generate_private_key(kind).export_private_key(form).decode()
        for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")
        for form in ("openssh", "pkcs8-pem", "pkcs1-pem")
        if (kind, form) != ("ssh-ed25519", "pkcs1-pem")
    }
    body = "".join(keys["ssh-ed25519 as openssh"].splitlines()[1:-1])
    lines = textwrap.wrap(body, 64)
    keys["of PuTTY"] = "\n".join(
        ("PuTTY-User-Key-File-3: ssh-ed25519", "Encryption: none", "Comment: ada", "Public-Lines: 1", "AAAAC3NzaC1lZDI1NTE5AAAAIMb0b",
         f"Private-Lines: {len(lines)}", *lines, "Private-MAC: 0123456789abcdef0123")
    )  # fmt: skip
    keys["of PGP"] = "\n".join(
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "", *lines, "=abcd", "-----END PGP PRIVATE KEY BLOCK-----")
    )
    return keys


def cut(key: str, lines: int) -> str:
    """The end of a key, as at the beginning of the end of a log."""
    return "\n".join(key.split("\n")[lines:])


KEY_FORMS: dict[str, Callable[[str], str]] = {
    "as it was made": lambda key: key,
    "cut at its first line": lambda key: cut(key, 1),
    "cut within": lambda key: cut(key, 3 if "PGP" not in key and key.count("\n") > 6 else 1),
    "CRLF": lambda key: key.replace("\n", "\r\n"),
    "indented": lambda key: textwrap.indent(key, "    "),
    "backslash n": lambda key: key.replace("\n", "\\n"),
    "JSON": lambda key: json.dumps({"key": key}),
    "JSON in JSON": lambda key: json.dumps({"a": json.dumps({"key": key})}),
    "one line": lambda key: key.replace("\n", " "),
    "a diff": lambda key: textwrap.indent(key, "+"),
    "percent": lambda key: quote(key),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "base64 on lines": lambda key: base64.encodebytes(key.encode()).decode(),
    "base64 on short lines": lambda key: "\n".join(
        textwrap.wrap(base64.b64encode(key.encode()).decode(), 64)
    ),
    "base64 in YAML": lambda key: f"data:\n  id: {base64.b64encode(key.encode()).decode()}",
    "base64 in JSON": lambda key: json.dumps({"id": base64.b64encode(key.encode()).decode()}),
}


@pytest.mark.parametrize("form", KEY_FORMS)
def test_no_line_of_a_private_key_stays(form: str) -> None:
    for kind, key in private_keys().items():
        shown = redacted(f"before\n{KEY_FORMS[form](key)}\n")
        lines = [line for line in key.splitlines()[1:-1] if len(line) > 20 and not line.startswith("AAAAC3")]
        coded = base64.b64encode(key.encode()).decode()
        pieces = [*lines, *(quote(line) for line in lines), *textwrap.wrap(coded, 32)]
        assert [piece for piece in pieces if piece in shown] == [], kind


@pytest.mark.parametrize("name", ["password", "HF_TOKEN", "api_key", "client_secret", "pw"])
def test_base64_of_a_text_with_a_secret_goes(name: str) -> None:
    for form, word in itertools.product(("colon", "JSON", "export", "an entry of env"), WORDS):
        coded = base64.b64encode(FORMS[form].format(n=name, v=word).encode()).decode()
        for text in (coded, f"data: {coded}", f'{{"a": "{coded}"}}', f"echo {coded} | base64 -d"):
            assert coded not in redacted(text)
    for word in WORDS:
        coded = base64.b64encode(f"ada:{word}".encode()).decode()
        assert coded not in redacted(f'{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{coded}"}}}}}}')


@pytest.mark.parametrize("text", READABLE)
def test_what_has_such_a_name_alone_stays(text: str) -> None:
    said = text.format(d="4ee61ee07efa6731c50594e647897c96" * 2, c="4ee61ee07efa6731c50594e647897c96ae3310eb")
    for envelope in ENVELOPES:
        if envelope.startswith(("2026", "- ")) and "\n" in said:
            continue
        shown = envelope.format(v=said)
        assert redacted(shown) == shown


def test_what_follows_a_secret_stays() -> None:
    for form in FORMS:
        shown = redacted(f"before {FORMS[form].format(n='password', v=WORDS[0])}\nnext line")
        assert shown.startswith("before ")
        assert shown.endswith("next line"), form
        assert REMOVED in shown
        assert redacted(shown) == shown


@pytest.mark.parametrize(
    "unit",
    [
        "\\",
        '"',
        "a",
        "a-",
        "token ",
        "value: ",
        "| a ",
        "a,",
        "\x1b[",
        "AAAAAAAAAAAAAAAA\n",
        '\\"',
        "token='a''",
    ],
)
def test_much_of_the_same_takes_no_longer_than_its_length(unit: str) -> None:
    for begin in ("", "token: ", '{"value": "', "name,token\n"):
        began = time.process_time()
        redacted(begin + unit * (64_000 // len(unit)))
        assert time.process_time() - began < 5
