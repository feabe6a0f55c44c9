// Package upstream runs the suite with which Kubernetes tests its Pod Security plugin and its webhook.
//
// https://github.com/kubernetes/kubernetes/blob/v1.37.2/test/integration/auth/podsecurity_test.go
package upstream

import (
	"io"
	"net/http"
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/testutil"
	podsecuritytest "k8s.io/pod-security-admission/test"
)

func TestPodSecurity(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // no limit
	podsecuritytest.Run(t, podsecuritytest.Options{ClientConfig: config})
}

// TestMetrics makes the assertions of ValidateWebhookMetrics, which is not exported. The replicas serve their metrics on
// a different port than their webhooks.
func TestMetrics(t *testing.T) {
	response, err := http.Get(os.Getenv("METRICS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", os.Getenv("METRICS_URL"), response.Status)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := testutil.NewMetrics()
	if err := testutil.ParseMetrics(string(text), &metrics); err != nil {
		t.Fatal(err)
	}
	if err := testutil.ValidateMetrics(metrics, "pod_security_evaluations_total",
		"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"); err != nil {
		t.Error(err)
	}
	if err := testutil.ValidateMetrics(metrics, "pod_security_exemptions_total",
		"request_operation", "resource", "subresource"); err != nil {
		t.Error(err)
	}
}
