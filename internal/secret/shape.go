package secret

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// shape is a form that secrets of one kind have. sign is a text that stands in each of them: the expression is tried
// only where it is found. Of a match its first group is the secret, or the whole where there is none.
type shape struct {
	sign   string
	find   *regexp.Regexp
	accept func(string) bool // nil: every match
	least  int               // bytes that a text with one has, where that spares a search
}

// rare is, of each shape's sign, the byte that the fewest texts hold: a text without it is not searched for the sign.
var rare = func() []byte {
	const common = "\x00etaoinsrlhdcumpfgywbvkxjqz./:" // from the most frequent
	all := make([]byte, len(shapes))
	for i, sh := range shapes {
		all[i] = sh.sign[0]
		for j := range len(sh.sign) {
			rank := func(c byte) int {
				if at := strings.IndexByte(common, c); at > 0 {
					return at
				}
				return len(common)
			}
			if rank(sh.sign[j]) > rank(all[i]) {
				all[i] = sh.sign[j]
			}
		}
	}
	return all
}()

func re(expr string) *regexp.Regexp { return regexp.MustCompile(expr) }

// shapes come from the pages on which each vendor describes its keys, named in the comments; lengths are left open
// upwards, since vendors say that they may grow (github.blog/changelog/2021-03-31).
var shapes = []shape{
	// platform.openai.com/docs, docs.anthropic.com: sk-…, sk-proj-…, sk-ant-…; OpenRouter, DeepSeek and others have
	// taken the form over
	{"sk-", re(`\bsk-[A-Za-z0-9_-]{16,}`), mixed, 0},
	// huggingface.co/docs/hub/security-tokens
	{"hf_", re(`\bhf_[A-Za-z0-9]{16,}`), nil, 0},
	{"api_org_", re(`\bapi_org_[A-Za-z0-9]{16,}`), nil, 0},
	// docs.github.com, "About authentication to GitHub": token formats
	{"gh", re(`\bgh[oprsu]_[A-Za-z0-9]{16,}`), nil, 0},
	{"github_pat_", re(`\bgithub_pat_[A-Za-z0-9_]{16,}`), nil, 0},
	// docs.gitlab.com/security/tokens: token prefixes
	{"gl", re(`\bgl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct|wt)-[A-Za-z0-9_.-]{16,}`), nil, 0},
	// docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html: unique ID prefixes
	{"A", re(`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`), nil, 0},
	// cloud.google.com/docs/authentication: API keys, access tokens, client secrets, refresh tokens
	{"AIza", re(`\bAIza[A-Za-z0-9_-]{30,}`), nil, 0},
	{"ya29.", re(`\bya29\.[A-Za-z0-9_.-]{16,}`), nil, 0},
	{"GOCSPX-", re(`\bGOCSPX-[A-Za-z0-9_-]{16,}`), nil, 0},
	{"1//0", re(`\b1//0[A-Za-z0-9_-]{20,}`), nil, 0},
	// docs.slack.dev/authentication/tokens, docs.slack.dev: incoming webhooks
	{"xo", re(`\bxox[abeoprsc](?:\.xox[bp])?-[A-Za-z0-9-]{10,}`), nil, 0},
	{"xapp-", re(`\bxapp-[A-Za-z0-9-]{16,}`), nil, 0},
	{"hooks.slack.com/", re(`hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{10,})`), nil, 0},
	// docs.stripe.com/keys
	{"k_", re(`\b[prs]k_(?:live|test)_[A-Za-z0-9]{10,}`), nil, 0},
	{"whsec_", re(`\bwhsec_[A-Za-z0-9+/=]{16,}`), nil, 0},
	// pypi.org/help: API tokens are macaroons behind "pypi-"; docs.npmjs.com/about-access-tokens
	{"pypi-", re(`\bpypi-(?:Ag[A-Za-z0-9_-]{14,}|[A-Za-z0-9_-]{40,})`), nil, 0},
	{"npm_", re(`\bnpm_[A-Za-z0-9]{20,}`), nil, 0},
	// RFC 7519: three parts in base64url, the first two JSON objects; and JSON in base64 alone, as Neptune's tokens are
	{"eyJ", re(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,3}`), nil, 0},
	{"eyJ", re(`\beyJ[A-Za-z0-9+/_-]{37,}={0,2}`), nil, 0},
	// RFC 7468; the OpenSSH and PGP forms have the same frame. Without its end: to the end of the text.
	{"PRIVATE KEY", re(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----((?s:.*?))(?:-----END|$)`), notMarked, 0},
	// core.telegram.org/bots/api: number:35 characters, the first an A
	{":A", re(`\b(?:bot)?\d{8,10}:A[A-Za-z0-9_-]{34}\b`), nil, 0},
	// docs.discord.com/developers/resources/webhook; tokens of bots
	{"/api/webhooks/", re(`/api/webhooks/(\d+/[A-Za-z0-9_-]{16,})`), nil, 0},
	{".", re(`\b[MNO][A-Za-z0-9_-]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}`), nil, 57},
	{"webhook.office.com/", re(`webhook\.office\.com/webhookb2/([^\s"'<>]{16,})`), nil, 0},
	// docs.databricks.com/dev-tools/auth/pat, replicate.com/docs, console.groq.com/docs, docs.x.ai, docs.perplexity.ai,
	// docs.fireworks.ai
	{"dapi", re(`\bdapi[0-9a-f]{32}(?:-\d)?`), nil, 0},
	{"r8_", re(`\br8_[A-Za-z0-9]{20,}`), nil, 0},
	{"gsk_", re(`\bgsk_[A-Za-z0-9]{20,}`), nil, 0},
	{"xai-", re(`\bxai-[A-Za-z0-9]{20,}`), nil, 0},
	{"pplx-", re(`\bpplx-[A-Za-z0-9]{20,}`), nil, 0},
	{"fw_", re(`\bfw_[A-Za-z0-9]{20,}\b`), nil, 0},
	// docs.nvidia.com/ngc: personal keys; docs.langchain.com: LangSmith; docs.pinecone.io
	{"nvapi-", re(`\bnvapi-[A-Za-z0-9_-]{20,}`), nil, 0},
	{"lsv2_", re(`\blsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}`), nil, 0},
	{"pcsk_", re(`\bpcsk_[A-Za-z0-9_]{20,}`), nil, 0},
	// twilio.com/docs/sendgrid: SG.id.secret; twilio.com/docs/iam/api-keys; docs.mailgun, mailchimp.com/developer
	{"SG.", re(`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`), nil, 0},
	{"SK", re(`\bSK[0-9a-f]{32}\b`), nil, 0},
	{"-us", re(`\b[0-9a-f]{32}-us\d{1,2}\b`), nil, 0},
	// docs.digitalocean.com, docs.docker.com/security/access-tokens, shopify.dev, linear.app/developers,
	// developers.notion.com, learning.postman.com
	{"_v1_", re(`\bdo[opr]_v1_[0-9a-f]{32,}`), nil, 0},
	{"dckr_", re(`\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}`), nil, 0},
	{"shp", re(`\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}`), nil, 0},
	{"lin_api_", re(`\blin_api_[A-Za-z0-9]{20,}`), nil, 0},
	{"ntn_", re(`\bntn_[A-Za-z0-9]{20,}`), nil, 0},
	{"PMAK-", re(`\bPMAK-[A-Za-z0-9-]{20,}`), nil, 0},
	// developer.hashicorp.com/vault/docs/concepts/tokens, developer.hashicorp.com/terraform: user and team tokens
	{"hv", re(`\bhv[sbr]\.[A-Za-z0-9_-]{20,}`), nil, 0},
	{".atlasv1.", re(`\b[A-Za-z0-9]{10,}\.atlasv1\.[A-Za-z0-9_=-]{20,}`), nil, 0},
	// grafana.com/docs, docs.sentry.io, docs.newrelic.com, tailscale.com/kb, github.com/FiloSottile/age
	{"gl", re(`\bglsa_[A-Za-z0-9]{16,}_[0-9a-fA-F]{8}|\bglc_[A-Za-z0-9+/=]{20,}`), nil, 0},
	{"sntry", re(`\bsntry[su]_[A-Za-z0-9+/=_]{20,}`), nil, 0},
	{"NRAK-", re(`\bNRAK-[A-Z0-9]{20,}`), nil, 0},
	{"tskey-", re(`\btskey-[a-z]+-[A-Za-z0-9-]{16,}`), nil, 0},
	{"AGE-SECRET-KEY-", re(`\bAGE-SECRET-KEY-1[A-Z0-9]{20,}`), nil, 0},
	// docs.anaconda.com: a channel's token in its address
	{"/t/", re(`://[^\s/]+/t/([A-Za-z0-9-]{10,})/`), mixed, 0},
	// RFC 6750 and RFC 7617: credentials behind the name of their scheme
	{"earer", re(`\b[Bb]earer\s+([A-Za-z0-9._~+/=-]{8,})`), mixed, 0},
	{"asic", re(`\b[Bb]asic\s+([A-Za-z0-9+/]{6,}={0,2})`), userAndPassword, 0},
	// docs.wandb.ai, "wandb login": the key stands alone
	{"wandb", re(`\bwandb login (?:--?\S+ )*([A-Za-z0-9_-]{32,})`), nil, 0},
	// the file netrc: machine, login, password
	{"password", re(`\blogin\s+\S+\s+password\s+(\S+)`), notMarked, 0},
	// dev.mysql.com/doc, "Password": glued to -p; sshpass and others take it behind
	{" -p", re(`\b(?:mysql\w*|mariadb[\w-]*)\b[^\n|;&]*?\s-p['"]?([^\s'"]+)`), notSwitch, 0},
	{" -p", re(`\b(?:sshpass|mongo\w*|docker login|twine upload|podman login)\b[^\n|;&]*?\s-p\s*['"]?([^\s'"]+)`),
		notSwitch, 0},
}

func notMarked(s string) bool { return strings.TrimSpace(s) != "" && !strings.Contains(s, Mark) }
func notSwitch(s string) bool { return notMarked(s) && !isSwitch(s) && !isReference(s) }

// mixed tells a key from words joined by dashes: it has a digit, and a stretch that no word has.
func mixed(s string) bool {
	digits, upper, run, longest := 0, 0, 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isDigit(c):
			digits++
			run++
		case isLetter(c):
			if c < 'a' {
				upper++
			}
			run++
		default:
			run = 0
		}
		longest = max(longest, run)
	}
	return longest >= 20 || digits > 0 && (longest >= 12 || upper > 0 && upper < len(s)-digits)
}

// userAndPassword says that the text is base 64 of user:password.
func userAndPassword(s string) bool {
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if text, err := e.DecodeString(s); err == nil && strings.IndexByte(string(text), ':') >= 0 {
			for _, c := range text {
				if c < ' ' {
					return false
				}
			}
			return true
		}
	}
	return false
}
