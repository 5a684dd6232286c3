package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
)

func TestWhomACallIsAboutIsKeptHoweverItIsSpelled(t *testing.T) {
	t.Parallel()
	const id = "0190b2a4-1234-7000-8000-000000000001"
	for _, spelled := range []string{id, "0190b2a4123470008000000000000001", "urn:uuid:" + id, "{" + id + "}"} {
		require.Equal(t, About{ProfileID: id}, aboutOf(&auditv1.AuditEntry{ProfileId: spelled}), spelled)
	}
	for _, spelled := range []string{"+12025550143", " 12025550143", "+1-202-555-0143", "+1 (202) 555.0143", "+1\u00a0202\u00a0555\u00a00143", "+1 202-555-0143"} {
		require.Equal(t, About{Phone: "+12025550143"}, aboutOf(&auditv1.AuditEntry{Phone: spelled}), spelled)
	}
	for _, other := range []string{
		"", "ana", "+1", "0190b2a4-1234-7000-8000-000000000001", "call 911 and tell them that the answer is 4232123",
		"2025550143", "(202) 555-0143", "12025550143", "+1202555014", "+120255501433",
	} {
		require.Empty(t, aboutOf(&auditv1.AuditEntry{Phone: other}), other)
	}
}
