package messaging_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/retention"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging"
)

const messagingMethods = "paceline.messaging.v1.MessagingService/"

func TestAudit(t *testing.T) {
	t.Parallel()
	now := time.Now // the service's, which is the machine's
	as := func(t *testing.T, role rpc.Role, subject string) context.Context {
		t.Helper()
		return rpc.WithPrincipal(telemetry.WithRequestID(t.Context(), "r-"+subject),
			rpc.Principal{Subject: subject, OrgID: org, Role: role, Client: "192.0.2.7"})
	}
	entries := func(t *testing.T, client messagingv1.MessagingServiceClient, in *messagingv1.ListMessagingAuditRequest) []*auditv1.AuditEntry {
		t.Helper()
		in.Limit = 100
		listed, err := client.ListMessagingAudit(t.Context(), in)
		require.NoError(t, err)
		return listed.GetEntries()
	}

	t.Run("ReadingAMessageIsKeptWithWhoseItIs", func(t *testing.T) {
		t.Parallel()
		addr, _ := start(t, messaging.Migrations())
		client := dial(t, addr, rpc.RoleService)
		profile := uuid.NewString()
		sent, err := client.Send(t.Context(), &messagingv1.SendRequest{OrgId: org, ProfileId: profile, To: theirs, Body: "hello", IdempotencyKey: "key"})
		require.NoError(t, err)
		of := &messagingv1.GetMessageRequest{MessageId: sent.GetMessage().GetMessageId()}
		for _, caller := range []context.Context{as(t, rpc.RoleOperator, "ada"), as(t, rpc.RoleUser, profile), as(t, rpc.RoleApp, "shop"), t.Context()} {
			_, err := client.GetMessage(caller, of)
			require.NoError(t, err)
		}
		found := entries(t, client, &messagingv1.ListMessagingAuditRequest{OrgId: org})
		require.Len(t, found, 1, "of four callers the operator")
		_, err = client.ExplainMessage(as(t, rpc.RoleOperator, "ada"), &messagingv1.ExplainMessageRequest{MessageId: of.GetMessageId()})
		require.NoError(t, err)
		require.Equal(t, profile, entries(t, client, &messagingv1.ListMessagingAuditRequest{OrgId: org, Method: messagingMethods + "ExplainMessage"})[0].GetProfileId())
		require.Equal(t, messagingMethods+"GetMessage", found[0].GetMethod())
		require.Equal(t, []string{profile, of.GetMessageId(), "OK"}, []string{found[0].GetProfileId(), found[0].GetTargetId(), found[0].GetOutcome()})
		require.Equal(t, []string{"ada", "192.0.2.7", "r-ada"},
			[]string{found[0].GetActor().GetSubject(), found[0].GetActor().GetClientAddress(), found[0].GetActor().GetRequestId()})
		require.Empty(t, entries(t, client, &messagingv1.ListMessagingAuditRequest{OrgId: uuid.NewString()}), "another organisation has none")
		_, err = dial(t, addr, rpc.RoleOperator).ListMessagingAudit(t.Context(), &messagingv1.ListMessagingAuditRequest{OrgId: org, Limit: 1})
		require.Equal(t, codes.PermissionDenied, status.Code(err), "an operator sees the whole, in onboarding")
	})

	t.Run("ALineOfTheLedgerSaysWhoWroteItAndItsChainHolds", func(t *testing.T) {
		t.Parallel()
		addr, _ := start(t, messaging.Migrations())
		client := dial(t, addr, rpc.RoleService)
		_, err := client.Send(t.Context(), &messagingv1.SendRequest{OrgId: org, To: theirs, Body: "hello", IdempotencyKey: "key"})
		require.NoError(t, err)
		ada := as(t, rpc.RoleOperator, "ada")
		_, err = client.SetConsent(ada, &messagingv1.SetConsentRequest{Phone: theirs, State: "opted_out", Reason: "asked by phone"})
		require.NoError(t, err)
		ledger, err := client.GetConsent(ada, &messagingv1.GetConsentRequest{Phone: theirs})
		require.NoError(t, err)
		require.True(t, ledger.GetChain().GetVerified())
		require.Len(t, ledger.GetEvents(), 2)
		require.Nil(t, ledger.GetEvents()[0].GetActor(), "no call of a person's")
		require.Equal(t, "ada", ledger.GetEvents()[1].GetActor().GetSubject())
		require.Equal(t, "r-ada", ledger.GetEvents()[1].GetActor().GetRequestId())
		require.Len(t, entries(t, client, &messagingv1.ListMessagingAuditRequest{OrgId: org, Phone: theirs}), 2, "the change and the reading")
	})

	t.Run("EachOfACrowdIsTheActorOfTheirOwnText", func(t *testing.T) {
		t.Parallel()
		addr, _ := start(t, messaging.Migrations())
		queue := messagingv1.NewOutboundServiceClient(connect(t, addr, rpc.RoleApp))
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				subject := fmt.Sprintf("shop-%d", i)
				stored, err := queue.EnqueueText(as(t, rpc.RoleApp, subject), &messagingv1.EnqueueTextRequest{
					IdempotencyKey: subject, To: theirs, Body: "Hi", Purpose: "transactional", SendAt: timestamppb.New(now().Add(time.Hour)),
				})
				if !assertNoError(t, err) {
					return
				}
				seen, err := queue.GetQueuedText(as(t, rpc.RoleOperator, "ada"), &messagingv1.GetQueuedTextRequest{TextId: stored.GetText().GetTextId()})
				if assertNoError(t, err) && (stored.GetText().GetActor() != nil || seen.GetText().GetActor().GetSubject() != subject) {
					t.Errorf("the text of %s is by %v, and shown to an app as by %v", subject, seen.GetText().GetActor(), stored.GetText().GetActor())
				}
			})
		}
		all.Wait()
		client := dial(t, addr, rpc.RoleService)
		require.Len(t, entries(t, client, &messagingv1.ListMessagingAuditRequest{
			OrgId: org, Method: "paceline.messaging.v1.OutboundService/EnqueueText",
		}), 40)
		require.Len(t, entries(t, client, &messagingv1.ListMessagingAuditRequest{OrgId: org, Subject: "shop-7"}), 1)
	})

	t.Run("WhatIsOldIsForgotten", func(t *testing.T) {
		t.Parallel()
		at := time.Date(2020, 11, 20, 12, 0, 0, 0, time.UTC) // past the floor of the database
		db := pgtest.New(t, messaging.Migrations())
		calls := audit.New(db, func() time.Time { return at })
		for range 3 {
			_, err := calls.Keep(t.Context(), rpc.Call{Method: "m", Caller: rpc.Principal{Subject: "ada", OrgID: org, Role: rpc.RoleOperator}})
			require.NoError(t, err)
			at = at.Add(time.Hour)
		}
		sweep := retention.Sweep{
			DB: db, Rules: messaging.RetentionRules(messaging.Kept{Audit: 2 * time.Hour}), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at },
		}
		require.NoError(t, sweep.Pass(t.Context()))
		left, err := calls.List(t.Context(), audit.Filter{OrgID: org, Limit: 9})
		require.NoError(t, err)
		require.Len(t, left, 2)
		require.Empty(t, left[0].GetOutcome(), "it was never noted: it may have happened")
	})

	t.Run("ASubjectThatCannotBeKeptIsRefusedByTheTable", func(t *testing.T) {
		t.Parallel()
		calls := audit.New(pgtest.New(t, messaging.Migrations()), now)
		for _, caller := range []rpc.Principal{
			{Subject: "", OrgID: org, Role: rpc.RoleOperator}, {Subject: "onboarding", OrgID: org, Role: rpc.RoleService},
		} {
			_, err := calls.Keep(t.Context(), rpc.Call{Method: "m", Caller: caller})
			require.ErrorContains(t, err, "violates check constraint")
		}
	})

	t.Run("AnOperatorsCallSeesNothingOfTheTable", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t, messaging.Migrations())
		pool, err := postgres.OpenFor(t.Context(), "messaging", postgres.Config{URL: url})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		calls := audit.New(pool, now)
		ctx := postgres.ForOrganisation(t.Context(), org)
		_, err = calls.Keep(ctx, rpc.Call{Method: "m", Caller: rpc.Principal{Subject: "ada", OrgID: org, Role: rpc.RoleOperator}})
		require.NoError(t, err, "it is kept all the same")
		seen, err := calls.List(ctx, audit.Filter{OrgID: org, Limit: 9})
		require.NoError(t, err)
		require.Empty(t, seen)
	})
}

// assertNoError is require.NoError for a goroutine that is not the test's.
func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}
