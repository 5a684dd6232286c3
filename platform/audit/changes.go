package audit

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	methodv1 "paceline.internal/proto/gen/paceline/method/v1"
)

// changing are the methods that change something, of every service that is linked in, by the names that entries have.
var changing = sync.OnceValue(func() (methods []string) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				said, _ := proto.GetExtension(method.Options(), methodv1.E_Method).(*methodv1.Method)
				if said.GetAudit() == methodv1.Audit_AUDIT_CHANGE {
					methods = append(methods, string(service.FullName())+"/"+string(method.Name()))
				}
			}
		}
		return true
	})
	return methods
})

// Changes reports whether a method, by the name that entries have, changes something.
func Changes(method string) bool { return slices.Contains(changing(), method) }
