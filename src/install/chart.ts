/** The description of the Helm chart: Chart.yaml and its README. */
import { printYaml, readDocuments } from '../config/yaml.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { DEFINITIONS } from './index.ts';
import { MINIMUM_MINOR } from './settings.ts';

/** The fields of package.json that describe the product. */
export interface Product {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly keywords: readonly string[];
  readonly repository: { readonly url: string };
}

/** Returns the URL of the repository for browsers. */
export function repositoryUrl({ repository: { url } }: Pick<Product, 'repository'>): string {
  return url.replace(/^git\+/, '').replace(/\.git$/, '');
}

/** Formats Chart.yaml. The icon is part of the URL, so that it needs no server. */
export function chartMetadata(product: Product, icon: string): string {
  const { version, description, keywords, license } = product;
  const home = repositoryUrl(product);
  const chart = {
    apiVersion: 'v2',
    name: 'portcullis',
    description,
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: `>= 1.${MINIMUM_MINOR}.0-0`,
    keywords,
    home,
    sources: [home],
    maintainers: [{ name: 'Portcullis maintainers', url: home }],
    icon: `data:image/svg+xml;base64,${Buffer.from(icon.trim()).toString('base64')}`,
    annotations: {
      'artifacthub.io/category': 'security',
      'artifacthub.io/license': license,
      'artifacthub.io/crds': printYaml([DEFINITIONS.map(describeDefinition)]),
      'artifacthub.io/links': printYaml([
        [
          { name: 'Documentation', url: `${home}/blob/v${version}/docs/README.md` },
          { name: 'Changes', url: `${home}/blob/v${version}/CHANGELOG.md` },
          { name: 'Support', url: `${home}/issues` },
        ],
      ]),
    },
  };
  return printYaml([chart]);
}

function describeDefinition({ metadata, spec: { names, versions } }: (typeof DEFINITIONS)[number]): JsonObject {
  const [version] = versions;
  const description = version?.schema?.openAPIV3Schema?.description ?? names.kind;
  return { kind: names.kind, version: version?.name, name: metadata.name, displayName: names.kind, description };
}

/** Formats the README of the chart: the installation, and all values. */
export function chartReadme({ version, description }: Product, values: string): string {
  const [defaults] = readDocuments(values, 'values.yaml').documents;
  const entries = isObject(defaults?.value) ? Object.entries(defaults.value) : [];
  const rows = entries.flatMap(([name, value]) => {
    const described = describeValue(values, name);
    return isObject(value) && Object.keys(value).length > 0 && !AS_ONE.has(name)
      ? Object.entries(value).map(([field, one], index) => row(`${name}.${field}`, one, index === 0 ? described : ''))
      : [row(name, value, described)];
  });
  return `# Portcullis

${description}: Pod Security Standards, SecurityContextConstraints, and the rollout of Pod Security enforcement.

\`\`\`console
helm install portcullis portcullis-chart-${version}.tgz -n portcullis --create-namespace --set image.registry=registry.example.com --wait
kubectl label namespace portcullis pod-security.kubernetes.io/enforce=restricted
\`\`\`

A chart cannot label its namespace: the second command does. The chart requires Kubernetes 1.${MINIMUM_MINOR} or newer. A cluster has one
installation. \`values.schema.json\` rejects unknown values and invalid settings.

## Values

| value | default | description |
|---|---|---|
${rows.join('')}`;
}

/** Values whose default is long. */
const AS_ONE: ReadonlySet<string> = new Set(['podSecurityContext', 'securityContext', 'resources', 'nodeSelector']);

function row(name: string, value: unknown, description: string): string {
  const text = JSON.stringify(value);
  return `| \`${name}\` | ${text.length > 80 ? 'see values.yaml' : `\`${text}\``} | ${description} |\n`;
}

/** Returns the comment before a value. */
function describeValue(values: string, name: string): string {
  const [, comment = ''] = new RegExp(`^((?:# .*\\n)+)(?:\\w+:.*\\n)*?${name}:`, 'm').exec(values) ?? [];
  return comment.replaceAll(/^# /gm, '').trim().replaceAll('\n', ' ').replaceAll('|', '\\|');
}
