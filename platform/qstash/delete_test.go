package qstash_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		id     string
		status int
		want   error
	}{
		"Withdraws":                    {id: "msg_1", status: http.StatusOK},
		"IsDoneWhenItIsGone":           {id: "msg_1", status: http.StatusNotFound},
		"WithoutAnIdAsksForNothing":    {want: qstash.ErrInvalid},
		"SaysWhyItCouldNotBeWithdrawn": {id: "msg_1", status: http.StatusInternalServerError, want: &qstash.Error{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.Path)
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(`{"cancelled":1}`))
			}))
			defer api.Close()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client, err := qstash.New(qstash.Config{URL: api.URL, Token: "token", HTTPClient: &http.Client{Transport: transport}})
			require.NoError(t, err)
			err = client.Delete(t.Context(), tt.id)
			if tt.id == "" {
				require.ErrorIs(t, err, tt.want)
				require.Empty(t, asked)
				return
			}
			require.Equal(t, []string{"DELETE /v2/messages/msg_1"}, asked)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			var refused *qstash.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, tt.status, refused.Status)
		})
	}
}
