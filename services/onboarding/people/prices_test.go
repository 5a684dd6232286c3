package people_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

func TestSegmentPrices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	decides := func(p *onboardingv1.SegmentPrices) (*onboardingv1.SegmentPrices, error) {
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.UpdateSettings, &onboardingv1.UpdateSettingsRequest{
			Settings: &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{}, SegmentPrices: p},
		})
		return out.GetSettings().GetSegmentPrices(), err
	}
	got, err := decides(nil)
	require.NoError(t, err)
	require.Nil(t, got, "none is made up")
	list := &onboardingv1.SegmentPrices{Currency: "BRL", Prices: map[string]string{"+1": "0.0079", "+55": "0.05", "+598": "1"}}
	for _, given := range []*onboardingv1.SegmentPrices{list, nil} { // a request without it leaves it as it is
		got, err = decides(given)
		require.NoError(t, err)
		require.True(t, proto.Equal(list, got), got)
	}
	for _, bad := range []struct{ currency, country, price, want string }{
		{"", "+1", "1", "currency must be three capital letters"},
		{"usd", "+1", "1", "currency must be"},
		{"ZZZ", "+1", "1", "currency must be"},
		{"USD", "1", "1", "is no country code"},
		{"USD", "+999", "1", "is no country code"},
		{"USD", "+1415", "1", "is no country code"},
		{"USD", "+1", "", "the price of +1"},
		{"USD", "+1", "-1", "the price of +1"},
		{"USD", "+1", "1000", "the price of +1"},
		{"USD", "+1", "0.0000001", "the price of +1"},
		{"USD", "+1", "1e3", "the price of +1"},
	} {
		_, err := decides(&onboardingv1.SegmentPrices{Currency: bad.currency, Prices: map[string]string{bad.country: bad.price}})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.ErrorContains(t, err, bad.want)
	}
	got, err = decides(&onboardingv1.SegmentPrices{})
	require.NoError(t, err)
	require.Nil(t, got, "an empty list ends it")
}
