package testkit

import (
	"encoding/base64"
	"math/rand/v2"
)

// Secrets gives secrets of every shape, made up from a seed: none is anybody's.
func Secrets(seed uint64) map[string]string {
	r := rand.New(rand.NewPCG(seed, 13))
	from := func(letters string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	const hex, lower, alnum = "0123456789abcdef", "abcdefghijkmnpqrstuvwxyz23456789",
		"ABCDEFGHIJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"
	const url = alnum + "-_"
	an := func(n int) string { return from(alnum, n-2) + "7q" } // ends in a letter or a digit, as they do
	b64 := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return map[string]string{
		"openai": "sk-" + an(48), "openai project": "sk-proj-" + from(url, 60) + an(20), "anthropic": "sk-ant-api03-" +
			from(url, 70) + an(23),
		"hugging face": "hf_" + from(alnum[:52], 34), "github": "ghp_" + an(36), "github oauth": "gho_" + an(36),
		"github server":       "ghs_" + an(36),
		"github fine-grained": "github_pat_" + an(22) + "_" + an(59), "gitlab": "glpat-" + an(20),
		"gitlab deploy": "gldt-" + an(20),
		"aws key":       "AKIA" + from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16), "aws session key": "ASIA" +
			from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
		"google": "AIza" + from(url, 33) + an(2), "google access": "ya29." + from(url, 60) + an(2),
		"google client": "GOCSPX-" + an(28),
		"slack bot":     "xoxb-" + from("0123456789", 12) + "-" + from("0123456789", 12) + "-" + an(24),
		"slack app":     "xapp-1-A" + an(12) + "-" + an(24),
		"slack user":    "xoxp-" + from("0123456789", 12) + "-" + an(24), "stripe": "sk_live_" + an(24),
		"stripe restricted": "rk_live_" + an(24),
		"pypi":              "pypi-AgEIcHlwaS5vcmc" + an(60), "npm": "npm_" + an(36), "jwt": "eyJ" +
			b64(`hbGciOiJIUzI1NiJ9xx`) +
			"." + "eyJ" + an(40) + "." + an(43),
		"neptune": "eyJ" + an(120) + "==", "telegram": from("123456789", 9) + ":AA" + an(33), "databricks": "dapi" +
			from(hex, 32),
		"replicate": "r8_" + an(37), "groq": "gsk_" + an(52), "sendgrid": "SG." + an(22) + "." + an(43),
		"twilio":    "SK" + from(hex, 32),
		"mailchimp": from(hex, 32) + "-us12", "digitalocean": "dop_v1_" + from(hex, 64), "docker": "dckr_pat_" + an(27),
		"shopify": "shpat_" + from(hex, 32),
		"linear":  "lin_api_" + an(40), "vault": "hvs." + an(90), "nvidia": "nvapi-" + an(64), "langsmith": "lsv2_pt_" +
			from(hex, 32) + "_" + from(hex, 10),
		"grafana": "glsa_" + an(32) + "_" + from(hex, 8), "age": "AGE-SECRET-KEY-1" +
			from("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
		"terraform": an(14) + ".atlasv1." + an(60), "discord bot": "M" + an(23) + "." + an(6) + "." + an(38),
		"xai": "xai-" + an(80),
	}
}

// PlainSecrets are values without a shape: only a name, a place or a flag tells them.
func PlainSecrets(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 14))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abcdefghjkmnpqrstuvwxyz23456789"[r.IntN(31)]
		}
		return string(b) + "8k"
	}
	return []string{word(6), word(12), word(38), word(4) + "!" + word(3), word(5) + "&" + word(4)}
}
