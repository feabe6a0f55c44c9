# Installs Portcullis in each cluster of a map, with a workspace for each cluster, and waits until the settings are in
# force and, in the Enforce phase, no workload would be denied. Apply the clusters in the order of the rings:
#
#   set -e
#   for cluster in prod-1 prod-2; do
#     terraform workspace select -or-create "$cluster"
#     terraform apply
#   done
#
# Replace OWNER with the owner of the release registry.
terraform {
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = ">= 3.0"
    }
  }
}

variable "clusters" {
  description = "The clusters by the name of their workspace. The phase Evaluate opts a cluster out."
  type = map(object({
    context = string
    phase   = optional(string, "Enforce")
  }))
}

locals {
  cluster = var.clusters[terraform.workspace]
  kubectl = "kubectl --context='${local.cluster.context}'"
}

provider "helm" {
  kubernetes = {
    config_path    = "~/.kube/config"
    config_context = local.cluster.context
  }
}

resource "helm_release" "portcullis" {
  name             = "portcullis"
  namespace        = "portcullis"
  create_namespace = true
  repository       = "oci://ghcr.io/OWNER/charts"
  chart            = "portcullis"
  version          = "0.1.0"
  values = [yamlencode({
    settings = {
      clusterName = terraform.workspace
      rollout     = { phase = local.cluster.phase }
    }
  })]
}

resource "terraform_data" "ready" {
  triggers_replace = [helm_release.portcullis.version, helm_release.portcullis.values]

  provisioner "local-exec" {
    command = join(" && ", concat(
      # The leader creates and updates the object after the release is installed.
      [for condition in ["create", "jsonpath='{.spec.rollout.phase}'=${local.cluster.phase}", "condition=Ready"] :
        "${local.kubectl} wait portcullis cluster --for=${condition} --timeout=15m"
      ],
      local.cluster.phase != "Enforce" ? [] : [
        "${local.kubectl} wait psaenforcementconfig cluster --for=condition=ViolationsDetected=False --timeout=1m"
      ],
    ))
  }
}
