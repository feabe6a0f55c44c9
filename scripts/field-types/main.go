// Command field-types prints the types of the built-in kinds in the notation of src/cluster/embedded/fields/builtin/.
// The facts come from the Go types of Kubernetes: names, pointers and omitempty by reflection, list types and patch
// strategies from struct tags and markers.
//
//	cd scripts/field-types && go run . ../../src/cluster/embedded/fields/builtin
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	machinery "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var kinds = []any{
	core.Pod{}, core.Namespace{}, core.ServiceAccount{}, core.ConfigMap{}, core.Secret{}, core.Service{}, core.Endpoints{},
	core.Event{}, core.Node{}, core.PersistentVolume{}, core.PersistentVolumeClaim{}, core.LimitRange{}, core.ResourceQuota{},
	core.ReplicationController{}, core.PodTemplate{}, core.Binding{},
	apps.Deployment{}, apps.ReplicaSet{}, apps.StatefulSet{}, apps.DaemonSet{}, apps.ControllerRevision{},
	batch.Job{}, batch.CronJob{},
	rbac.Role{}, rbac.ClusterRole{}, rbac.RoleBinding{}, rbac.ClusterRoleBinding{},
	admissionregistration.MutatingWebhookConfiguration{}, admissionregistration.ValidatingWebhookConfiguration{},
	admissionregistration.ValidatingAdmissionPolicy{}, admissionregistration.ValidatingAdmissionPolicyBinding{},
	coordination.Lease{}, authorization.SubjectAccessReview{}, authorization.SelfSubjectAccessReview{},
	authorization.LocalSubjectAccessReview{}, authorization.SelfSubjectRulesReview{},
	authentication.TokenRequest{}, authentication.TokenReview{}, authentication.SelfSubjectReview{},
	autoscaling.Scale{}, autoscaling.HorizontalPodAutoscaler{}, policy.PodDisruptionBudget{}, policy.Eviction{},
	events.Event{}, discovery.EndpointSlice{}, networking.NetworkPolicy{}, networking.Ingress{}, networking.IngressClass{},
	node.RuntimeClass{}, scheduling.PriorityClass{}, storage.StorageClass{},
	apiextensions.CustomResourceDefinition{},
	meta.Status{}, meta.DeleteOptions{}, meta.ListMeta{}, meta.APIResourceList{}, meta.APIGroupList{}, meta.APIVersions{},
}

// Types whose JSON is not that of their struct.
var special = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():                                  "time",
	reflect.TypeFor[meta.MicroTime]():                             "micro-time",
	reflect.TypeFor[meta.Duration]():                              "duration",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "int-or-string",
	reflect.TypeFor[machinery.RawExtension]():                     "any",
	reflect.TypeFor[meta.FieldsV1]():                              "any",
	reflect.TypeFor[apiextensions.JSON]():                         "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "any",
}

// markers of one field or type, such as listType=map.
type markers map[string][]string

var fieldMarkers = map[string]markers{} // by "pkgpath.Type" and "pkgpath.Type.GoField"

func main() {
	queue, seen := []reflect.Type{}, map[reflect.Type]bool{}
	visit := func(t reflect.Type) {
		if !seen[t] {
			seen[t] = true
			queue = append(queue, t)
		}
	}
	for _, kind := range kinds {
		visit(reflect.TypeOf(kind))
	}
	blocks := map[string]map[string]string{}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		pkg := packageOf(t)
		if blocks[pkg] == nil {
			blocks[pkg] = map[string]string{}
		}
		blocks[pkg][t.Name()] = describe(t, visit)
	}
	for pkg, types := range blocks {
		names := []string{}
		for name := range types {
			names = append(names, name)
		}
		sort.Strings(names)
		group := strings.Split(pkg, "/")[0]
		var out strings.Builder
		fmt.Fprintf(&out, "/** The types of %s. Printed by scripts/field-types. */\nexport const %s = `\n", pkg, group)
		for _, name := range names {
			out.WriteString(types[name])
		}
		out.WriteString("`;\n")
		check(os.WriteFile(filepath.Join(os.Args[1], group+".ts"), []byte(out.String()), 0o644))
	}
}

func describe(t reflect.Type, visit func(reflect.Type)) string {
	var out strings.Builder
	out.WriteString(t.Name())
	if m := markersOf(t, ""); slices.Contains(m["structType"], "atomic") {
		out.WriteString(" atomic")
	}
	out.WriteString("\n")
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" && strings.Contains(options, "inline") || field.Anonymous && name == "" {
			visit(field.Type)
			fmt.Fprintf(&out, "  + %s\n", reference(field.Type, t))
			continue
		}
		fmt.Fprintf(&out, "  %s%s %s%s\n", name, always(field, options), typeName(field.Type, t, visit), notes(field, t))
	}
	return out.String()
}

func always(field reflect.StructField, options string) string {
	if strings.Contains(options, "omitzero") {
		return ""
	}
	plainStruct := field.Type.Kind() == reflect.Struct
	if strings.Contains(options, "omitempty") && !plainStruct {
		return ""
	}
	return "!"
}

func typeName(t, in reflect.Type, visit func(reflect.Type)) string {
	if name, ok := special[t]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + typeName(t.Elem(), in, visit)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + typeName(t.Elem(), in, visit)
	case reflect.Map:
		if t.Name() != "" {
			return "map~" + localName(t, in) + " " + typeName(t.Elem(), in, visit)
		}
		if key := t.Key(); key.Name() != "string" {
			return "map[" + localName(key, in) + "] " + typeName(t.Elem(), in, visit)
		}
		return "map " + typeName(t.Elem(), in, visit)
	case reflect.Struct:
		visit(t)
		return reference(t, in)
	case reflect.String:
		if t.Name() != "string" {
			return "~" + localName(t, in)
		}
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Int32, reflect.Int64:
		return t.Kind().String()
	case reflect.Int:
		return "int64"
	}
	panic(t.String())
}

func notes(field reflect.StructField, in reflect.Type) string {
	m := markersOf(in, field.Name)
	if t := field.Type; t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Struct {
		for key, values := range markersOf(t, "") {
			if len(m[key]) == 0 {
				m[key] = values
			}
		}
	}
	out := ""
	switch {
	case slices.Contains(m["listType"], "map"):
		keys := slices.Clone(m["listMapKey"])
		sort.Strings(keys)
		out += " by=" + strings.Join(keys, ",")
	case slices.Contains(m["listType"], "set"):
		out += " set"
	case slices.Contains(m["mapType"], "atomic") || slices.Contains(m["structType"], "atomic"):
		out += " atomic"
	case slices.Contains(m["structType"], "granular"):
		out += " granular"
	}
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		out += " patch=" + strategy
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			out += ":" + key
		}
	}
	if len(m["default"]) == 1 && !strings.HasPrefix(m["default"][0], "ref(") {
		out += " =" + m["default"][0]
	}
	if len(m["default"]) == 1 && strings.HasPrefix(m["default"][0], "ref(ProtocolTCP") {
		out += ` ="TCP"`
	}
	return out
}

// markersOf reads the comments of the package that declares the type.
func markersOf(t reflect.Type, field string) markers {
	if t.PkgPath() == "" || t.Name() == "" {
		return markers{}
	}
	key := t.PkgPath()
	if _, ok := fieldMarkers[key]; !ok {
		fieldMarkers[key] = markers{}
		readPackage(key)
	}
	found := markers{}
	for name, values := range fieldMarkers[key+"."+t.Name()+"."+field] {
		found[name] = slices.Clone(values)
	}
	return found
}

func readPackage(path string) {
	files, err := parser.ParseDir(token.NewFileSet(), directory(path), nil, parser.ParseComments)
	check(err)
	for _, pkg := range files {
		ast.Inspect(pkg, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			for _, spec := range decl.Specs {
				typeSpec, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				name := path + "." + typeSpec.Name.Name
				fieldMarkers[name+"."] = parse(decl.Doc, typeSpec.Doc)
				structType, ok := typeSpec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range structType.Fields.List {
					for _, ident := range field.Names {
						fieldMarkers[name+"."+ident.Name] = parse(field.Doc)
					}
				}
			}
			return true
		})
	}
}

func parse(docs ...*ast.CommentGroup) markers {
	found := markers{}
	for _, doc := range docs {
		if doc == nil {
			continue
		}
		for _, line := range doc.List {
			text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
			if name, value, ok := strings.Cut(strings.TrimPrefix(text, "+"), "="); ok && strings.HasPrefix(text, "+") {
				found[name] = append(found[name], strings.TrimSpace(value))
			}
		}
	}
	return found
}

func directory(path string) string {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output()
	check(err)
	return strings.TrimSpace(string(out))
}

func packageOf(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/")
}

func reference(t, in reflect.Type) string {
	if t.PkgPath() == in.PkgPath() {
		return t.Name()
	}
	return packageOf(t) + "." + t.Name()
}

func localName(t, in reflect.Type) string {
	if packageOf(t) == packageOf(in) {
		return t.Name()
	}
	parts := strings.Split(t.PkgPath(), "/")
	return parts[len(parts)-1] + "." + t.Name()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
