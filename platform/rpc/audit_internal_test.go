package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	methodv1 "paceline.internal/proto/gen/paceline/method/v1"
)

func TestAboutOf(t *testing.T) {
	t.Parallel()
	const one, other = "01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000002"
	for _, tc := range []struct {
		name    string
		message any
		want    About
	}{
		{name: "Ids", message: &auditv1.AuditEntry{ProfileId: one, TargetId: other}, want: About{ProfileID: one, TargetID: other}},
		{name: "TheFirstOfSeveral", message: &auditv1.AuditEntry{AuditId: one, TargetId: other}, want: About{TargetID: one}},
		{name: "Phone", message: &auditv1.AuditEntry{Phone: "+15005550006"}, want: About{Phone: "+15005550006"}},
		{name: "WordsAreNotKept", message: &auditv1.AuditEntry{ProfileId: "Ada Lovelace", TargetId: one + " ", Phone: "Ada", Method: one}},
		{name: "IdsOfTheMessageWithin", message: &auditv1.AuditEntry{Actor: &auditv1.Actor{RequestId: one}}, want: About{TargetID: one}},
		{name: "NoFieldWithAnId", message: &methodv1.Method{}},
		{name: "NoMessage", message: "x"},
		{name: "Nothing", message: nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, aboutOf(tc.message))
		})
	}
}
