"""Forms of credentials: tokens of known services, and names of secrets.

The forms follow the rules of gitleaks (https://github.com/gitleaks/gitleaks), Copyright (c) 2019 Zachary Rice, MIT
licence, whose text is in docs/decisions/0032-secrets.md with the reasons for every difference. Patterns match bytes.
Each is bounded in length, so the cost of a match is bounded too.
"""

from __future__ import annotations

TOKENS = {
    "1Password": r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}\b|ops_eyJ[\w+/]{250}",
    "Adobe": r"p8e-[a-zA-Z0-9]{32}\b",
    "age": r"(?i:AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58})",
    "Airtable": r"pat[a-zA-Z0-9]{14}\.[a-f0-9]{64}\b",
    "Alibaba": r"LTAI[a-zA-Z0-9]{20}\b",
    "Anthropic": r"sk-ant-[\w-]{24}",
    "Artifactory": r"AKCp[A-Za-z0-9]{69}\b|cmVmd[A-Za-z0-9]{59}\b",
    "Atlassian": r"ATATT3[\w=-]{186}",
    "Authress": r"(?:sc|ext|scauth|authress)_[a-zA-Z0-9]{5,30}+\.[a-zA-Z0-9]{4,6}\.acc[_-][\w-]{10,32}+\.[\w+/=-]{30}",
    "AWS": r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b(?<!EXAMPLE)|ABSK[A-Za-z0-9+/]{109}"
    r"|bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t",
    "Azure": r"[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])",
    "ClickHouse": r"4b1d[A-Za-z0-9]{38}\b",
    "Clojars": r"(?i:CLOJARS_[a-z0-9]{60})\b",
    "Cloudflare": r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b",
    "Databricks": r"dapi[a-f0-9]{32}\b",
    "DigitalOcean": r"do[oprDOPR]_v1_[a-fA-F0-9]{64}\b",
    "Doppler": r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40}",
    "Duffel": r"duffel_(?:test|live)_[\w=-]{43}",
    "Dynatrace": r"dt0c01\.[a-zA-Z0-9]{24}\.[a-zA-Z0-9]{64}",
    "EasyPost": r"EZ[AT]K[a-zA-Z0-9]{54}\b",
    "Facebook": r"EAA[MC][a-zA-Z0-9]{100}|\d{15,16}\|[\w-]{27,40}(?![\w-])",
    "Flutterwave": r"FLW(?:SEC|PUB)K_TEST-(?:[a-hA-H0-9]{32}-X|[a-hA-H0-9]{12}\b)",
    "Fly.io": r"fo1_[\w-]{43}|(?:fm1[ar]|fm2)_[a-zA-Z0-9+/]{100}",
    "Frame.io": r"fio-u-[\w=-]{64}",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{60}",
    "GitLab": r"gl(?:pat|dt|ffct|ft|imt|agent|oas|ptt|rt|soat)-[\w-]{20}|glcbt-[0-9a-zA-Z]{1,5}_[\w-]{20}"
    r"|GR1348941[\w-]{20}|_gitlab_session=[0-9a-z]{32}",
    "Google": r"AIza[\w-]{35}(?![\w-])|ya29\.[\w-]{60}|GOCSPX-[\w-]{28}",
    "Grafana": r"(?i:eyJrIjoi[a-z0-9]{70}|glc_[a-z0-9+/]{32}|glsa_[a-z0-9]{32}_[a-f0-9]{8}\b)",
    "Harness": r"[ps]at\.[\w-]{22}\.[a-zA-Z0-9]{24}\.[a-zA-Z0-9]{20}\b",
    "Heroku": r"HRKU-AA[\w-]{58}",
    "Hugging Face": r"(?:hf|api_org)_[a-zA-Z]{34}\b",
    "Infracost": r"ico-[a-zA-Z0-9]{32}\b",
    "Intra42": r"s-s4t2(?:ud|af)-[a-fA-F0-9]{64}\b",
    "JSON web token": r"ey[a-zA-Z0-9]{17,1000}+\.ey[\w/\\-]{17,8000}+\.(?:[\w/\\-]{10}|(?![\w/\\-]))",
    "JSON web token in base64": r"ZXlK(?=[\w/\\+-]{0,60}\d)[\w/\\+-]{60}",
    "kgd": r"kgd_[a-z]+_[A-Za-z0-9]{8}_[A-Za-z0-9]{40}",
    "Linear": r"lin_api_[a-zA-Z0-9]{40}\b",
    "Mailgun": r"key-[a-f0-9]{32}\b",
    "Mailchimp": r"[a-f0-9]{32}-us\d\d?\b",
    "MaxMind": r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b",
    "New Relic": r"NR(?:JS-[a-f0-9]{19}|II-[a-zA-Z0-9-]{32}|AK-[a-zA-Z0-9]{27})\b",
    "Notion": r"(?:ntn_[0-9]{11}[A-Za-z0-9]{35}|secret_[A-Za-z0-9]{43})\b",
    "npm": r"(?i:npm_[a-z0-9]{36})\b",
    "Octopus Deploy": r"API-[A-Z0-9]{26}\b",
    "Okta": r"00[A-Za-z0-9][\w-]{39}(?=['\"])",
    "OpenAI": r"sk-(?=[\w-]{20,80}T3BlbkFJ)[\w-]{40}|sk-(?:proj|svcacct|admin)-[\w-]{40}|sk-[a-zA-Z0-9]{48}\b",
    "OpenShift": r"sha256~[\w-]{43}(?![\w-])",
    "Perplexity": r"pplx-[a-zA-Z0-9]{48}\b",
    "PlanetScale": r"pscale_(?:tkn|oauth|pw)_[\w=.-]{32}",
    "Postman": r"PMAK-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}\b",
    "Prefect": r"pnu_[a-zA-Z0-9]{36}\b",
    "Pulumi": r"pul-[a-f0-9]{40}\b",
    "PyPI": r"pypi-[\w-]{50}",
    "Readme": r"rdme_[a-z0-9]{70}\b",
    "RubyGems": r"rubygems_[a-f0-9]{48}\b",
    "Scalingo": r"tk-us-[\w-]{48}",
    "SendGrid": r"SG\.[\w=.-]{60}",
    "Sendinblue": r"xkeysib-[a-f0-9]{64}-[a-zA-Z0-9]{16}\b",
    "Sentry": r"sntrys_eyJpYXQiO[\w+/=]{60}|sntryu_[a-f0-9]{64}\b",
    "SettleMint": r"sm_[aps]at_[a-zA-Z0-9]{16}\b",
    "Shippo": r"shippo_(?:live|test)_[a-fA-F0-9]{40}\b",
    "Shopify": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "Slack": r"xox[abeoprs]-(?=[A-Za-z0-9-]{0,60}\d{7})[A-Za-z0-9-]{12,200}+|xox[ar]-(?:\d-)?[0-9a-zA-Z]{20,48}\b"
    r"|(?i:xapp-\d-[A-Z0-9]{5,20}+-\d{5,20}+-[a-z0-9]{10,100}+|xoxe(?:\.xox[bp])?-\d-[A-Z0-9]{140,170}+)"
    r"|hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43}",
    "Sourcegraph": r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}\b",
    "Square": r"(?:EAAA[\w-]{56,60}|sq0(?:atp|csp)-[\w-]{22,60})(?![\w-])",
    "Stripe": r"(?:sk|rk)_(?:test|live|prod)_[a-zA-Z0-9]{10}|whsec_[a-zA-Z0-9]{32}",
    "Teams": r"webhook\.office\.com/webhookb2/(?i:[a-z0-9]{8}-)",
    "Telegram": r"\d{5,16}:A[\w-]{34}(?![\w-])",
    "Twilio": r"SK[0-9a-fA-F]{32}\b",
    "Twitter": r"A{22}[a-zA-Z0-9%]{80}",
    "Typeform": r"tfp_[\w.=-]{59}",
    "Vault": r"hv[sbr]\.[\w-]{90}|[sb]\.(?=[A-Za-z]{0,23}\d)[a-zA-Z0-9]{24}\b",
    "Yandex": r"t1\.[\w-]{10,200}+={0,2}\.[\w-]{86}|AQVN[\w-]{35,38}(?![\w-])|YC[\w-]{38}(?![\w-])",
}
"""Services and the forms of their tokens. Each begins at the start of a word and has at least 16 characters."""

KEYWORDS = {
    b"-----begin": (
        "private key",
        r"(?i:-----BEGIN[ A-Z0-9_-]{0,100}?PRIVATE KEY(?: BLOCK)?-----)[ \t]*+(?:\\[nr]|[\r\n]|$)",
    ),
    b"://": ("password in a URL", r"://[^\s/:@'\"<>]{0,100}+:(?P<value>[^\s/:@'\"<>(){}]{6,200}+)@[\w.-]{2}"),
    b"bearer": ("bearer token", r"(?i:bearer)[ \t]{1,5}+(?P<value>(?=[A-Za-z_.~+/-]*\d)[\w=~.+/-]{16,400}+)"),
    b"basic": (
        "password of basic authorization",
        r"(?i:basic)[ \t]{1,5}+(?P<value>[A-Za-z0-9+/]{11,400}+={0,2})(?![\w.-])",
    ),
    b"authorization": (
        "authorization header",
        r"(?i:authorization)['\"]?[ \t]{0,3}[:=,][ \t'\"]{0,4}+(?:[A-Za-z-]{3,12}[ \t]{1,3}+)?"
        r"(?P<value>(?=[A-Za-z_.~+/-]*\d)[\w=~.+/-]{20,400}+)",
    ),
    b"curl": (
        "password of curl",
        r"(?i:curl)\b[^\0]{0,300}?\s(?:-u|--user)[ =]{0,3}['\"]?[^\s:'\"]{0,100}+:(?P<value>[^\s:'\"<>(){}]{6,100}+)",
    ),
    b"accountkey": ("Azure storage key", r"(?i:accountkey)=(?P<value>[A-Za-z0-9+/]{60,90}+=*)"),
    b"sharedaccesskey": ("Azure access key", r"(?i:sharedaccesskey)=(?P<value>[A-Za-z0-9+/]{40,90}+=*)"),
    b"login": (
        "netrc password",
        r"(?i:login\s{1,5}+\S{1,100}+\s{1,5}+password)[ \t]{1,5}+(?P<value>[^\s<>{}]{6,200}+)",
    ),
    b"<add key=": (
        "NuGet password",
        r"(?i:<add key=\"(?:ClearText)?Password\"\s{1,5}+value=\"(?P<value>[^\"%]{8,200}+)\")",
    ),
    b"contribsys__com": ("Sidekiq password", r"(?i:contribsys__com)[^\n]{0,30}?(?P<value>[a-f0-9]{8}:[a-f0-9]{8})\b"),
    b"kind:": (
        "Kubernetes secret",
        r"(?i:kind:[ \t]{0,5}['\"]?secret\b)['\"]?[^\0]{0,300}?"
        r"\bdata:\s[^:]{1,200}+:\s{1,20}+(?:[>|][+-]?\s{1,20}+)?['\"]?"
        r"(?P<value>[A-Za-z0-9+/]{10,400}+={0,2})",
    ),
}
"""Keywords in lower case, with the kind of secret that may start there and its form."""

NAMES = (
    b"access",
    b"auth",
    b"api",
    b"credential",
    b"creds",
    b"key",
    b"passwd",
    b"password",
    b"passphrase",
    b"pwd",
    b"secret",
    b"token",
)
"""Parts of names whose value is a secret if it looks random."""

HARMLESS_NAMES = (
    rb"access(?:ib|or)|access[_.-]?id|random[_.-]?access|api[_.-]?(?:id|name|version)|rapid(?!api)|capital|author(?!iz)|public"
    rb"|authentication-results|credentials?[_.-]?id|csrf|turkey|monkey|keyboard|keyword|keyframe|keying|keyring"
    rb"|(?:bucket|foreign|hot|idx|natural|primary|pub|schema|sequence|sort|cache|partition|group|row|dict)[_.-]?key"
    rb"|key[_.-]?(?:alias|code|id|length|mesh|name|pair|selector|signature|size|stone|store|word|up|down|left|right|file|path)"
    rb"|secret[_.-]?(?:length|name|size|id)|(?:api|credentials|token)[_.-]?(?:endpoint|ur[il]|type)|issuerkeyhash"
    rb"|token[_.-]?(?:file|id|name|count)|import[ \t{]|--mount=type=secret|checksum|sha\d|md5|digest|integrity"
)
"""Names, or text around them, whose value is no secret."""

PLACEHOLDERS = (
    rb"example|x{6}|\*{3}|abcdefgh|your[_-]|changeme|placeholder|dummy|redacted|\.\.\.|\$\{|^\$"
    rb"|^[^a-z]*+(?:(?:a|my|the|some|super|app|db|admin|root|pass(?:word|wd|phrase)?|pwd|secret|token|key|user(?:name)?|repo|test"
    rb"|foo|bar|baz|none|null|true|false)[^a-z]*+)+$"
)
"""Values, in lower case, that stand for a secret in documentation."""

_PAIRS = (
    "thheineranrendatonnthaesstenedtoitoueahiisortiasteetngofaldeselesasiarveralduricroriionellcomelicech"
    "maomeltalanousecutssnspeunacloiltrhobeshctdiemgewiaiprpootmorsadiroosocaolwalykeplsubleeowidimfotsnc"
    "doapayupulamtyttigevryabpaodiaocbuogivgrbrfiexspifopdanaltckclcragefmppprtrdpyubeyobibvavininu"
)
PAIRS = frozenset(_PAIRS[at : at + 2] for at in range(0, len(_PAIRS), 2))
"""Common pairs of letters in English and in code."""
