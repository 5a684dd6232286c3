package twilio_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/twilio"
)

func TestCodesThatNoRetryMends(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		codes     []int
		ofAccount bool
		want      bool
	}{
		// The account, its key or its funds; the sender; the request.
		{codes: []int{10001, 20003, 20005, 20403, 20404, 30002}, ofAccount: true, want: true},
		{codes: []int{21212, 21601, 21603, 21606, 21659, 21660, 21661, 21703, 21704, 21705}, ofAccount: true, want: true},
		{codes: []int{21602, 21604, 21609, 21617}, ofAccount: true, want: true},
		{codes: []int{30032, 30034, 30990}, ofAccount: true, want: true}, // registrations
		// A permission, a trial, a sender for the country; what carriers and Twilio filter.
		{codes: []int{21408, 21607, 21608, 21612, 30007, 30450}, want: true},
		// What passes by itself.
		{codes: []int{20429, 21611, 30001, 30017, 30022, 30023, 30027, 63017, 63018, 63038}},
		{codes: []int{20500, 20503, 30003, 30008, 30036, 30410, 30500}},
		// Another number, or none at all: nothing is set up wrongly.
		{codes: []int{21211, 21214, 21614, 21635, 30005, 30006}},
		{codes: []int{21610, 30004}},
		{codes: []int{0, 99999}},
	} {
		for _, code := range tc.codes {
			t.Run(fmt.Sprint(code), func(t *testing.T) {
				t.Parallel()
				require.Equal(t, tc.want, twilio.NeedsPerson(code))
				require.Equal(t, tc.ofAccount, twilio.OfAccount(code))
				all, ofAccount := twilio.NeedingPerson()
				require.Equal(t, tc.want, slices.Contains(all, code))
				require.Equal(t, tc.ofAccount, slices.Contains(ofAccount, code))
			})
		}
	}
}
