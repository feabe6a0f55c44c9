import { INSTALLATION } from '../kube/well-known.ts';
import type { RolloutPhase } from '../policy/rollout/enforcement.ts';
import type { Evaluator } from '../policy/rollout/settings.ts';
import type { SccMode } from '../policy/scc/mode.ts';

/** Where API servers find the webhooks: the service of the installation, or a URL such as `https://127.0.0.1:8443`. */
export type WebhookAddress = 'service' | { readonly url: string };

/** What differs between installations. */
export interface ManifestSettings {
  readonly namespace: string;
  /** Of the program, without a leading `v`. */
  readonly version: string;
  /** With its registry and tag, or digest. */
  readonly image: string;
  readonly replicas: number;
  /** Of namespaces whose label says nothing; with `off` nothing about SCCs is installed. */
  readonly sccMode: SccMode;
  /** How far enforcement of the Pod Security Standards is rolled out; `Disabled` needs no rights of its own. */
  readonly rollout: RolloutPhase;
  /** Who judges for the rollout. */
  readonly evaluator: Evaluator;
  /** Controllers that are not to run, and get no rights. */
  readonly withoutControllers: readonly string[];
  /** See the option of `serve`. */
  readonly authorization: 'rbac' | 'sar';
  /**
   * Who makes the serving certificate and has API servers trust it; `others`: neither this program nor cert-manager.
   */
  readonly certificates: 'self-managed' | 'cert-manager' | 'others';
  /** Whether two replicas may share a node where they need not. */
  readonly spread: 'preferred' | 'required';
  readonly monitoring: 'none' | 'prometheus-operator';
  /** Address of the page to whose parts the alerts point. */
  readonly runbook: string;
  readonly webhooks: WebhookAddress;
}

/** What is installed where nobody says otherwise. */
export function defaultSettings(version: string): ManifestSettings {
  return {
    namespace: INSTALLATION.namespace,
    version,
    image: `${INSTALLATION.name}:${version}`,
    replicas: 3,
    sccMode: 'report',
    rollout: 'Evaluate',
    evaluator: 'InProcess',
    withoutControllers: [],
    authorization: 'rbac',
    certificates: 'self-managed',
    spread: 'preferred',
    monitoring: 'none',
    runbook: 'https://portcullis.dev/docs/runbook.md',
    webhooks: 'service',
  };
}
