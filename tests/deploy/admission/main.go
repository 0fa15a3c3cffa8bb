// Kubernetes' own ValidatingAdmissionPolicy plugin, as it runs in kube-apiserver, over one policy and given writes.
//
// admission FILE, with {"policy": .., "binding": .., "schema": Node's, "writes": [{"resource", "subresource", "user", "extra", "old", "new"}]} in it,
// writes {"warnings": [..of the type checker], "verdicts": ["" or why it is refused, ..]} to standard output.
//
// Debian's golang-go and golang-k8s-apiserver-dev (sid: k8s.io/apiserver 0.36) build it: tools/admission_part.sh.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	clients "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

type write struct {
	Resource, Subresource, User string
	Extra                       map[string][]string
	Old, New                    *corev1.Node
}

type question struct {
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
	Schema  *spec.Schema
	Writes  []write
}

type answer struct {
	Warnings []string `json:"warnings"`
	Verdicts []string `json:"verdicts"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// one is a schema resolver that knows Node.
type one struct{ schema *spec.Schema }

func (o one) ResolveSchema(schema.GroupVersionKind) (*spec.Schema, error) { return o.schema, nil }

func plugin(ctx context.Context, asked question, mapper meta.RESTMapper) *validating.Plugin {
	made, err := validating.NewPlugin(nil)
	check(err)
	client := clients.NewClientset(asked.Policy, asked.Binding)
	factory := informers.NewSharedInformerFactory(client, 0)
	made.SetExternalKubeClientSet(client)
	made.SetExternalKubeInformerFactory(factory)
	made.SetRESTMapper(mapper)
	made.SetAuthorizer(authorizerfactory.NewAlwaysDenyAuthorizer()) // no expression asks it
	made.SetDynamicClient(fake.NewSimpleDynamicClient(scheme.Scheme))
	made.SetDrainedNotification(ctx.Done())
	check(made.ValidateInitialization())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !made.WaitForReady() {
		check(fmt.Errorf("the plugin did not become ready"))
	}
	return made
}

// defaulted sets what the API server sets of a policy that it stores.
func defaulted(policy *admissionv1.ValidatingAdmissionPolicy) {
	match, equivalent, all := policy.Spec.MatchConstraints, admissionv1.Equivalent, admissionv1.AllScopes
	match.NamespaceSelector, match.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
	match.MatchPolicy = &equivalent
	for i := range match.ResourceRules {
		match.ResourceRules[i].Scope = &all
	}
}

func main() {
	var asked question
	text, err := os.ReadFile(os.Args[1])
	check(err)
	check(json.Unmarshal(text, &asked))
	defaulted(asked.Policy)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	node := corev1.SchemeGroupVersion.WithKind("Node")
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(node, meta.RESTScopeRoot)
	said := answer{Warnings: []string{}, Verdicts: []string{}}
	checker := &validating.TypeChecker{SchemaResolver: one{asked.Schema}, RestMapper: mapper}
	for _, warning := range checker.Check(asked.Policy) {
		said.Warnings = append(said.Warnings, warning.FieldRef+": "+warning.Warning)
	}
	judge := plugin(ctx, asked, mapper)
	interfaces := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
	for _, tried := range asked.Writes {
		who := &user.DefaultInfo{Name: tried.User, Extra: tried.Extra}
		attributes := admission.NewAttributesRecord(
			tried.New, tried.Old, node, "", tried.Old.Name, corev1.SchemeGroupVersion.WithResource(tried.Resource),
			tried.Subresource, admission.Update, &metav1.UpdateOptions{}, false, who,
		)
		verdict := ""
		if err := judge.Validate(ctx, attributes, interfaces); err != nil {
			verdict = err.Error()
		}
		said.Verdicts = append(said.Verdicts, verdict)
	}
	check(json.NewEncoder(os.Stdout).Encode(said))
}
