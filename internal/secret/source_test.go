package secret

import (
	"strings"
	"testing"
)

// TestSure: what stands in source, and which of it is a secret.
func TestSure(t *testing.T) {
	set := &Set{}
	set.Environ([]string{"DB_PASSWORD=violet-hammer-77", "PORT=8080"})
	for _, s := range []string{
		`token = "hf_abcdefghijklmnopqrstuvwxyz012345"`,
		`os.environ["OPENAI_API_KEY"] = "sk-proj-abcDEF123456abcDEF123456"`,
		`key: AKIAIOSFODNN7ABCDEFG`,
		`api_key='9f86d081884c7d659a2feaa0c55ad015'`,
		`url = "postgres://ada:q7Zp2LxV9tRw4KdM@host/db"`,
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----",
		`x = "violet-hammer-77"`,
	} {
		if at := set.Sure("# a\n" + s + "\n# b\n"); len(at) == 0 || at[0] < 4 {
			t.Errorf("not found in %s: %v", s, at)
		}
	}
	for _, s := range []string{
		`login(password=password, token=None, api_key=os.environ["KEY"])`,
		`parser.add_argument("--token", default="none")`,
		`tokenizer.pad_token = "<pad>"; eos_token="</s>"`,
		`commit = "2c5ae8e1f00d2c5ae8e1f00d2c5ae8e1f00d2c5a"`,
		`sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		`secret = "your-secret-here"`,
		`password = "changeme"`,
		`auth_token = get_auth_token_from_somewhere(config.section_2)`,
		`port = 8080`,
		`url = "postgres://ada:password@host/db"`,
		`# https://user:pass@example.org/`,
	} {
		if at := set.Sure(s); len(at) != 0 {
			t.Errorf("%s: %v, %q", s, at, s[at[0]:])
		}
	}
	if at := set.Sure(strings.Repeat("x = 1\n", 3)); at != nil {
		t.Error(at)
	}
}

func TestFile(t *testing.T) {
	for _, name := range []string{".env", "a/.env.local", "prod.env", "id_rsa", "k/ID_ED25519", ".netrc",
		"credentials.json", "cert.p12",
		".aws/credentials", ".streamlit/secrets.toml", "home/.docker/config.json", "kaggle.json"} {
		if !File(name) {
			t.Errorf("%s holds none", name)
		}
	}
	for _, name := range []string{".env.example", "env.py", "id_rsa.pub", "docker/config.json", "environment.yml",
		"credentials.py", "secrets.py", "train.py", "key.pem", ".env.template"} {
		if File(name) {
			t.Errorf("%s holds some", name)
		}
	}
}
