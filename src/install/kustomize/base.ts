import { defaultSettings, DEFINITIONS, manifestsOf, type Manifest } from '../index.ts';
import { kustomization, manifestFile, type Files } from './files.ts';

/** The files of the base: what belongs together lies together. */
export function baseFiles(version: string): Files {
  const files = new Map<string, Manifest[]>();
  for (const manifest of manifestsOf(defaultSettings(version))) {
    const file = fileOf(manifest);
    files.set(file, [...(files.get(file) ?? []), manifest]);
  }
  return [
    ['base/kustomization.yaml', kustomization({ kind: 'Kustomization', resources: [...files.keys()] })],
    ...[...files].map(([file, manifests]) => [`base/${file}`, manifestFile(manifests)] as const),
  ];
}

const FILES: Readonly<Record<string, string>> = {
  ClusterRole: 'rbac.yaml',
  ClusterRoleBinding: 'rbac.yaml',
  ConfigMap: 'configuration.yaml',
  Namespace: 'namespace.yaml',
  ResourceQuota: 'namespace.yaml',
  Role: 'rbac.yaml',
  RoleBinding: 'rbac.yaml',
  ServiceAccount: 'rbac.yaml',
};

function fileOf({ kind, metadata: { name } }: Manifest): string {
  const definition = DEFINITIONS.find(({ metadata }) => metadata.name === name);
  if (definition) return `crds/${definition.spec.names.plural}.yaml`;
  if (kind.endsWith('WebhookConfiguration')) return name === 'psa.portcullis.dev' ? 'psa.yaml' : 'scc.yaml';
  return FILES[kind] ?? 'replicas.yaml';
}
