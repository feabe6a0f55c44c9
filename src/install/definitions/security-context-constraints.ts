import { clusterMetadata } from '../metadata.ts';
import { SCC_FIELDS } from './scc-fields.ts';
import { column, type Definition } from './schema.ts';

const GROUP = 'security.openshift.io';

/**
 * Security context constraints, as OpenShift has them: what pods may ask for, and what they get where they ask for
 * nothing.
 *
 * Short manifests are completed by the webhook objects.scc.portcullis.dev before the schema is applied, and judged by
 * it afterwards. The one rule here holds what no pod may profit from, should an object come in without that webhook.
 */
export const securityContextConstraints: Definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: clusterMetadata(`securitycontextconstraints.${GROUP}`),
  spec: {
    group: GROUP,
    scope: 'Cluster',
    names: {
      kind: 'SecurityContextConstraints',
      listKind: 'SecurityContextConstraintsList',
      plural: 'securitycontextconstraints',
      singular: 'securitycontextconstraint',
      shortNames: ['scc'],
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        additionalPrinterColumns: [
          column('Priv', '.allowPrivilegedContainer', 'Whether containers may be privileged'),
          column('Caps', '.allowedCapabilities', 'The capabilities that containers may add'),
          column('SELinux', '.seLinuxContext.type', 'How the SELinux label is decided'),
          column('RunAsUser', '.runAsUser.type', 'How the user of containers is decided'),
          column('FSGroup', '.fsGroup.type', 'How the group that owns volumes is decided'),
          column('SupGroup', '.supplementalGroups.type', 'How the supplemental groups are decided'),
          column('Priority', '.priority', 'Higher is tried first'),
          column(
            'ReadOnlyRootFS',
            '.readOnlyRootFilesystem',
            'Whether the root file system of containers must be read-only',
          ),
          column('Volumes', '.volumes', 'The types of volumes that pods may have'),
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description:
              'SecurityContextConstraints say what pods may ask for, and what they get where they ask for nothing. They are tried by priority, from the most restrictive on, and the first that fits the pod, and that its service account or its creator may use, admits it.',
            required: [
              'allowHostDirVolumePlugin',
              'allowHostIPC',
              'allowHostNetwork',
              'allowHostPID',
              'allowHostPorts',
              'allowPrivilegedContainer',
              'allowedCapabilities',
              'defaultAddCapabilities',
              'priority',
              'readOnlyRootFilesystem',
              'requiredDropCapabilities',
              'volumes',
            ],
            'x-kubernetes-validations': [
              {
                rule: "self.allowHostDirVolumePlugin || !has(self.volumes) || !self.volumes.exists(volume, volume == '*' || volume == 'hostPath')",
                message: "volumes must not hold 'hostPath' or '*' unless allowHostDirVolumePlugin is true",
              },
            ],
            properties: SCC_FIELDS,
          },
        },
      },
    ],
  },
};
