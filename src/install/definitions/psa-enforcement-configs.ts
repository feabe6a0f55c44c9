import {
  ENFORCEMENT_MODES,
  MAX_VIOLATING_NAMESPACES,
  PSA_ENFORCEMENT_CONFIG,
} from '../../kube/psa-enforcement-config.ts';
import { clusterMetadata } from '../metadata.ts';
import { ageColumn, column, text, TYPE_META, type Definition, type Schema } from './schema.ts';

const GROUP = 'config.openshift.io';

const TIME: Schema = { type: 'string', format: 'date-time' };

const conditions: Schema = {
  type: 'array',
  description: 'What is known, and what is under way.',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
  items: {
    type: 'object',
    required: ['type', 'status', 'lastTransitionTime', 'reason', 'message'],
    properties: {
      type: {
        ...text('Evaluated, ViolationsDetected, Enforcing, Progressing, LegacyProposed or SpecInvalid.'),
        maxLength: 316,
      },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      observedGeneration: { type: 'integer', format: 'int64', minimum: 0 },
      lastTransitionTime: { ...TIME, description: 'When the status last changed.' },
      reason: { ...text('Why, in one word.'), minLength: 1, maxLength: 1024 },
      message: { ...text('The same for people.'), maxLength: 32_768 },
    },
  },
};

const violatingNamespaces: Schema = {
  type: 'array',
  description: 'Namespaces with workloads that enforcement would refuse; empty means none only if Evaluated is True.',
  maxItems: MAX_VIOLATING_NAMESPACES,
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  items: {
    type: 'object',
    required: ['name'],
    properties: {
      name: { ...text('The name of the namespace.'), minLength: 1, maxLength: 63 },
      reason: { ...text('What to look at: the configuration to come, or the label.'), maxLength: 256 },
      state: { ...text('Current, or Previous for what an earlier evaluation found.'), enum: ['Current', 'Previous'] },
      lastTransitionTime: { ...TIME, description: 'When the state last changed.' },
    },
  },
};

/** Whether a cluster holds its workloads to the Pod Security Standards. There is one object, `cluster`. */
export const psaEnforcementConfigs: Definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: clusterMetadata(`psaenforcementconfigs.${GROUP}`),
  spec: {
    group: GROUP,
    scope: 'Cluster',
    names: {
      kind: 'PSAEnforcementConfig',
      listKind: 'PSAEnforcementConfigList',
      plural: 'psaenforcementconfigs',
      singular: 'psaenforcementconfig',
    },
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        subresources: { status: {} },
        additionalPrinterColumns: [
          column('Requested', '.spec.enforcementMode', 'What the administrator asks for'),
          column('Decided', '.status.enforcementMode', 'What was decided'),
          column('Enforcing', '.status.conditions[?(@.type=="Enforcing")].status', 'Whether it is in force'),
          {
            ...column('Progressing', '.status.conditions[?(@.type=="Progressing")].reason', 'What is under way'),
            priority: 1,
          },
          ageColumn('Evaluated', '.status.lastEvaluationTime', 'When all namespaces were last judged'),
          ageColumn('Age', '.metadata.creationTimestamp', 'When the object was created'),
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description:
              'PSAEnforcementConfig says whether the cluster holds its workloads to the Pod Security Standards, and tells what is in the way.',
            required: ['spec'],
            'x-kubernetes-validations': [
              {
                rule: `self.metadata.name == '${PSA_ENFORCEMENT_CONFIG}'`,
                message: `psaenforcementconfig is a singleton; its name must be ${PSA_ENFORCEMENT_CONFIG}`,
              },
            ],
            properties: {
              ...TYPE_META,
              spec: {
                type: 'object',
                description: 'What the administrator asks for.',
                properties: {
                  enforcementMode: {
                    ...text(
                      'Restricted enforces, whatever is known of violations; Legacy enforces nothing. Empty: enforced once all namespaces have been judged and none has violations.',
                    ),
                    default: '',
                    enum: [...ENFORCEMENT_MODES],
                  },
                },
              },
              status: {
                type: 'object',
                description: 'What was decided, and why.',
                properties: {
                  enforcementMode: { ...text('What was decided; empty: nothing yet.'), enum: [...ENFORCEMENT_MODES] },
                  lastEvaluationTime: {
                    ...TIME,
                    description: 'The end of the last evaluation that judged every namespace.',
                  },
                  observedGeneration: { type: 'integer', format: 'int64' },
                  violatingNamespaces,
                  conditions,
                },
              },
            },
          },
        },
      },
    ],
  },
};
