package console

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/message"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestEveryLanguageHasEveryKey(t *testing.T) {
	t.Parallel()
	english := vocabularies[0]
	require.Equal(t, "en", english.Tag)
	for _, v := range vocabularies {
		require.NotEmpty(t, v.Name)
		require.Equal(t, slices.Sorted(maps.Keys(english.Words)), slices.Sorted(maps.Keys(v.Words)), v.Tag)
		for key, p := range v.Words {
			require.NotEmpty(t, p.Other, "%s %s", v.Tag, key)
			require.Equal(t, english.Words[key].One == "", p.One == "", "%s %s", v.Tag, key)
		}
	}
	for en, translated := range vocabularies[1].Sentences {
		require.NotEmpty(t, translated, en)
	}
}

// TestEveryKeyIsUsedAndThere finds the keys in the pages and the code: whole ones, and the beginnings that a word is added to.
func TestEveryKeyIsUsedAndThere(t *testing.T) {
	t.Parallel()
	whole := regexp.MustCompile(`"([a-z_]+(?:\.\w+)+)"`)
	asked := regexp.MustCompile(`(?:\.T|said\(|key:|Why:|Title:) *\(?"([a-z_]+(?:\.[a-z_]+)+)"`)
	begun := regexp.MustCompile(`"([a-z_]+(?:\.[a-z_]+)*\.)"|(?:Word|Coded)[ (]"([a-z_.]+)"`)
	ended := regexp.MustCompile(`"(\.[a-z_]+)"`)
	used, begins, ends := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, pattern := range []string{"pages/*.html", "*.go", "*/*.go"} {
		names, err := fs.Glob(os.DirFS("."), pattern)
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, found := range asked.FindAllStringSubmatch(string(text), -1) {
				require.True(t, known(found[1]), "%s uses %s, which has no words", name, found[1])
			}
			for _, found := range whole.FindAllStringSubmatch(string(text), -1) {
				used[found[1]] = true
			}
			for _, found := range begun.FindAllStringSubmatch(string(text), -1) {
				begins[strings.TrimSuffix(found[1]+found[2], ".")+"."] = true
			}
			for _, found := range ended.FindAllStringSubmatch(string(text), -1) {
				ends[found[1]] = true
			}
		}
	}
	for key := range vocabularies[0].Words {
		for at, c := range key {
			used[key] = used[key] || c == '.' && (begins[key[:at+1]] || used[key[:at]] && ends[key[at:]])
		}
		require.True(t, used[key], "nothing uses %s", key)
	}
}

func TestOneIsNotMany(t *testing.T) {
	t.Parallel()
	for lang, want := range map[int][2]string{0: {"session is parked", "sessions are parked"}, 1: {"sessão estacionada", "sessões estacionadas"}} {
		p := message.NewPrinter(languages[lang], message.Catalog(words))
		require.Equal(t, want[0], p.Sprintf("overview.parked", int64(1)))
		require.Equal(t, want[1], p.Sprintf("overview.parked", int64(2)))
		require.NotContains(t, p.Sprintf("engagement.dry.found", int64(1), int64(0)), "EXTRA")
		require.Contains(t, p.Sprintf("resume.matched", int32(1)), "1 ")
	}
}

func TestRefusalsAreSaidInTheReadersLanguageByReasonsOfTheServices(t *testing.T) {
	t.Parallel()
	err := (&rpc.Error{Code: codes.FailedPrecondition, Reason: "REASON_OPTED_OUT", Message: "the person has opted out"}).GRPCStatus().Err()
	require.Equal(t, "refused.REASON_OPTED_OUT", refusal(err))
	require.Empty(t, refusal(errors.New("another")), "which stays in the service's words")
	for key := range vocabularies[0].Words {
		if reason, ok := strings.CutPrefix(key, "refused."); ok {
			_, onboarding := onboardingv1.Reason_value[reason]
			_, messaging := messagingv1.Reason_value[reason]
			require.True(t, onboarding || messaging, "%s is no reason of a service", reason)
		}
	}
}

func TestEveryCallThatIsKeptHasAName(t *testing.T) {
	t.Parallel()
	kept := 0
	for _, service := range []string{
		onboardingv1.OnboardingService_ServiceDesc.ServiceName, onboardingv1.GoalService_ServiceDesc.ServiceName,
		onboardingv1.EngagementService_ServiceDesc.ServiceName, onboardingv1.EventService_ServiceDesc.ServiceName,
		onboardingv1.WebhookJobService_ServiceDesc.ServiceName, onboardingv1.TicketService_ServiceDesc.ServiceName,
		onboardingv1.RunService_ServiceDesc.ServiceName,
		messagingv1.MessagingService_ServiceDesc.ServiceName, messagingv1.OutboundService_ServiceDesc.ServiceName,
		messagingv1.SenderService_ServiceDesc.ServiceName,
	} {
		rules, err := rpc.Rules(service)
		require.NoError(t, err)
		for method, rule := range rules {
			if slices.ContainsFunc([]rpc.Role{rpc.RoleOperator, rpc.RoleApp, rpc.RoleUser}, rule.Kept) {
				kept++
				require.True(t, known("audit.deed."+path.Base(method)), "%s has no words", method)
			}
		}
	}
	require.Greater(t, kept, 50)
}

// TestPagesSayNothingButKeys finds words in the pages that would be English in every language.
func TestPagesSayNothingButKeys(t *testing.T) {
	t.Parallel()
	actions, shown := regexp.MustCompile(`(?s)\{\{.*?\}\}`), regexp.MustCompile(`(?:aria-label|title|alt|data-words|data-done)="[^"]*[A-Za-z]{2}[^"]*"`)
	said := regexp.MustCompile(`(?s)<code>.*?</code>|<[^>]*>|Paceline|JSON|CSV`)
	names, err := fs.Glob(os.DirFS("."), "pages/*.html")
	require.NoError(t, err)
	require.Greater(t, len(names), 20)
	for _, name := range names {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		text := actions.ReplaceAllString(string(page), "")
		require.Empty(t, shown.FindAllString(text, -1), name)
		require.Empty(t, regexp.MustCompile(`[A-Za-z]{2,}`).FindAllString(said.ReplaceAllString(text, ""), -1), name)
	}
}
