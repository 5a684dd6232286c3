// Package audit keeps who did it: a row for each call that changed something, and for each with which an operator read what is about a
// person; and who caused the rows that a call writes.
package audit

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
)

// Mark has the rows that are written under the context say who caused them: the caller. What a service does by itself has no actor.
func Mark(ctx context.Context, caller rpc.Principal) context.Context {
	if caller.Role == rpc.RoleService {
		return ctx
	}
	actor, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&auditv1.Actor{
		Subject: caller.Subject, Role: string(caller.Role), ClientAddress: caller.Client, RequestId: telemetry.RequestID(ctx),
	})
	if err != nil { // only of text that is not UTF-8, which no principal has; the call itself is kept with its bytes all the same
		return ctx
	}
	return postgres.WithActor(ctx, string(actor))
}

// Read is an actor as a row has it; nil of a row that no call caused, or that is older than actors are.
func Read(row *string) *auditv1.Actor {
	if row == nil {
		return nil
	}
	actor := new(auditv1.Actor)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(*row), actor); err != nil {
		return nil // written past this service
	}
	return actor
}
